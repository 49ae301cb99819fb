"""The local writer: memories that are certain, without a language model."""
