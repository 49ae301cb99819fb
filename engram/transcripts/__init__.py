"""Read agents' sessions: sources, turns, projects. Only ``git_commands`` runs a program; the rest only reads files."""
