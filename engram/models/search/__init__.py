"""What a search reads: text indexes, vectors, lists."""
