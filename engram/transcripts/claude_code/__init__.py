"""Read Claude Code's sessions: find its transcripts, parse their lines, and build turns from them."""

#: The agent's name as stored with every session.
AGENT = "claude-code"
