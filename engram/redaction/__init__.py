"""Secrets out, before anything is stored, embedded, logged or sent."""

from engram.redaction.blocks import drop_private
from engram.redaction.known import env_values, hash_value
from engram.redaction.redactor import redact

__all__ = ["drop_private", "env_values", "hash_value", "redact"]
