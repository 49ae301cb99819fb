"""Due work, task runs, spending and pauses."""
