"""The local extractor, which proposes memories that are certain, without a language model."""
