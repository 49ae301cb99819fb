"""Read Codex CLI's rollouts. Only the registry imports this package."""

#: The agent's name as stored with every session.
AGENT = "codex"
