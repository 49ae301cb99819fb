"""Consolidate memories without losing any: merge, supersede, age, pack and graduate them.

Runs are logged, resumable and reversible.
"""
