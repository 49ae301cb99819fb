"""Whose voice a text is in, what is safe to show, and orders in text that the user did not type."""
