"""Several machines, one memory: statements about memories, how they travel, and the service that stores them."""
