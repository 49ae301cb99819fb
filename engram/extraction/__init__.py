"""Turns become candidates: what is worth keeping, found without a key and without the network."""
