"""Text to vector, the model behind a protocol."""
