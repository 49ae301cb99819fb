"""Markdown notes: find, cut by heading, index, read back; MEMORY.md and the daily log."""
