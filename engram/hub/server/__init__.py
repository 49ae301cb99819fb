"""The hub: a service over PostgreSQL. It needs the extra ``hub``; nothing else in Engram imports it."""
