"""Engram: long-term memory for coding agents. Importing the package loads nothing else."""
