"""What is so: the health of every part, and what memory did in a time; read by commands, tools, briefing and doctor."""
