"""The Claude Code plugin: its files, where they go, and what of Engram Claude Code has registered."""
