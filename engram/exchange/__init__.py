"""Move memories in and out: exports as JSON lines and Markdown, imports of these and of other programs' memories."""
