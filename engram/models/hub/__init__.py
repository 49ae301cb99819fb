"""What travels through a hub, as it is stored here. Nothing on a lower floor knows about it."""
