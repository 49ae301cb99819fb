"""The hub, a service that stores its data in PostgreSQL.

It needs the ``hub`` extra, and nothing else in Engram imports it.
"""
