"""Read agents' sessions: sources, turns, projects.

Only ``git_commands`` runs a program; all other modules only read files.
"""
