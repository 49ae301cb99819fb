"""Memories: their rows, the only module that changes them, history and judgements."""
