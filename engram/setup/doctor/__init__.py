"""What is wrong with this installation, what repairs it, and what a bug report may say about it."""
