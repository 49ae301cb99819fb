"""Sessions: turns with their passages and entries, sources, and what became of prompts and commands."""
