"""Secrets out, before anything is stored, embedded, logged or sent; and whose voice a text is."""

from engram.redaction.blocks import drop_private
from engram.redaction.display import fence_safe, one_line
from engram.redaction.known import env_values, hash_value
from engram.redaction.redactor import redact
from engram.redaction.suspicion import why_suspect
from engram.redaction.voice import split_typed, typed_text

__all__ = [
    "drop_private",
    "env_values",
    "fence_safe",
    "hash_value",
    "one_line",
    "redact",
    "split_typed",
    "typed_text",
    "why_suspect",
]
