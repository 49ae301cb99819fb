"""Keep the worker and the watcher running, with launchd, systemd, or Engram's own supervisor."""
