"""Decide in whose voice a text is written and what is safe to show, and find orders in text the user did not type."""
