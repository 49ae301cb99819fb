"""Memories: their rows, the one door for changes, history and judgements."""
