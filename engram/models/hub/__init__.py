"""What travels through a hub, as stored on this machine. Nothing on a lower floor uses it."""
