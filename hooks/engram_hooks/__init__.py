"""The hooks that Claude Code runs. They only pass data on."""
