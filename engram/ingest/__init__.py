"""Transcript lines become stored turns, together with how far the file was read, in one transaction."""
