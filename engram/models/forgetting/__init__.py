"""Forgetting: rows, words, whole projects, and purges."""
