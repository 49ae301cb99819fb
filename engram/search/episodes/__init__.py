"""Ranking of memories: candidates as columns, scorers, one score each, and when to abstain."""
