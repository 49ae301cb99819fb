"""What Engram needs of the system: files that are written whole, the clock, locks, limits, sockets."""
