"""Rows that search reads: text indexes, vectors and lists."""
