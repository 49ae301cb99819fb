"""Claude Code's sessions: where its transcripts are, what their lines mean, and how they become turns."""

#: Name of the agent, as it is stored with every session.
AGENT = "claude-code"
