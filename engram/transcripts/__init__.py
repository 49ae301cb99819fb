"""Read an agent's transcript files: whole lines, entries, turns, projects. Pure but for file reads."""
