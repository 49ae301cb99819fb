"""Claude Code's transcripts: where they lie, what their lines mean, and how they become turns."""
