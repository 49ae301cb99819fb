"""What is wrong with this installation, what mends it, and what a bug report may say of it."""
