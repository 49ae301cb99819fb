"""What is due, what runs, what it costs, and what is paused."""
