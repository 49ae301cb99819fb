"""Turn text into vectors, with any model behind one protocol."""
