"""Read what agents write about their sessions: sources, turns, projects. Pure except for reading files."""
