"""Tidy memories without losing any: merge, supersede, age, pack, graduate; logged, resumable, reversible."""
