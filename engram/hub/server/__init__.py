"""The hub: a service over PostgreSQL. It needs the ``hub`` extra; nothing else in Engram imports it."""
