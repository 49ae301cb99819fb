"""Rank passages of turns and chunks of notes for a question, and show them word for word."""
