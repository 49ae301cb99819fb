"""Decide whose voice text is in and what is safe to show, and find orders in text that the user did not type."""
