"""Tidy memories without losing any: merge, supersede, age, pack and graduate; logged, resumable and reversible."""
