"""The hooks that Claude Code runs. They only forward data."""
