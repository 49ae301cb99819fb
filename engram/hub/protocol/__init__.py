"""The protocol between machines and a hub: stamps, statements, frames, messages and sealing. Pure."""
