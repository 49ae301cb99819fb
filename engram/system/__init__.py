"""Engram's use of the operating system: atomic files, the clock, locks, limits, sockets."""
