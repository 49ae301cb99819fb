"""Markdown notes: find, cut by heading, index and read them; MEMORY.md and the daily log."""
