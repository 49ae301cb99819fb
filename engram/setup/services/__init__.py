"""Keep the worker and the watcher running: by launchd, by systemd, or by a supervisor of Engram's own."""
