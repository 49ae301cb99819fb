"""The reader of Codex CLI's rollouts. Only the registry knows it."""

#: Name of the agent in stored sessions.
AGENT = "codex"
