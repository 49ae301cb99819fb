"""What Engram needs from the system: atomic files, the clock, locks, limits, sockets."""
