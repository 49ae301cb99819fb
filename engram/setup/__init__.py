"""Everything that touches other programs' files: what an installation changes, and how that is undone."""
