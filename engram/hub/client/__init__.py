"""A machine's side of the hub: joining, pulling, pushing."""
