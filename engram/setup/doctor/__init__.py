"""What is wrong with this installation, how to repair it, and what a bug report may say about it."""
