"""The worker process: startup, the servers on its sockets, and housekeeping."""
