"""The local writer: memories of what is sure, without a language model."""
