"""Recall: rank memories for a question, and decide which of them to show."""
