"""What machines and the hub agree on: stamps, statements, frames, messages and sealing. Pure."""
