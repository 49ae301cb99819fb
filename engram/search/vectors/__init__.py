"""Keep the vectors of memory.db in memory: the index, the cache, similar pairs, and embedding of missing vectors."""
