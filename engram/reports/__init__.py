"""What commands, tools, the briefing and the page show: health, checks, usage, memories, sessions."""
