"""Extract candidates for memories from turns, locally or with a language model."""
