"""Claude Code's sessions: where its transcripts are, what their lines mean, and how they become turns."""

#: The agent's name as stored with every session.
AGENT = "claude-code"
