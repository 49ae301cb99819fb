"""Vectors in memory: the index, its cache of memory.db, similar pairs, and the backfill of missing vectors."""
