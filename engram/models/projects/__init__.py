"""Projects: names, folders, merges, notes."""
