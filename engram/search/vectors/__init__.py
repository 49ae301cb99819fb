"""Vectors in memory: the index, its cache over memory.db, and the backfill of missing vectors."""
