"""Sessions: turns with their passages and entries, sources, and the outcome of prompts and commands."""
