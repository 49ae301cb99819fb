"""What travels through a hub, as it is stored here. Nothing below knows of it."""
