"""Consolidate memories without losing any: merge, supersede, age, pack and graduate; logged, resumable, reversible."""
