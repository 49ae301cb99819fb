"""Whose voice a text is, what is safe to show, and orders in text that nobody typed here."""
