"""The hooks that Claude Code calls. They hand bytes over and do no work."""
