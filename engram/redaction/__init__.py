"""Secrets out, before anything is stored, embedded, logged or sent."""
