"""Several machines, one memory: what is said of memories, how it travels, and the service that keeps it."""
