"""Hooks that Claude Code calls; they hand bytes over and do no work."""
