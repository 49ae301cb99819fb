"""The machine's side of a hub: join, pull and push."""
