"""Markdown notes: find, split, index and read them; the daily log; the user's instruction files."""
