"""Vectors in memory: the index, the cache over memory.db, similar pairs, and the backfill of missing vectors."""
