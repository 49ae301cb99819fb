"""The worker process: its start, its server on engram.sock, its housekeeping."""
