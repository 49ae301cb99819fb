"""Remove secrets before anything is stored, embedded, logged or sent, and decide whose voice a text is.

Names are loaded when they are first used, so that making a text safe to show compiles no pattern for secrets.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engram.redaction.fixed_forms import drop_private
    from engram.redaction.known_values import env_values, hash_value
    from engram.redaction.redactor import redact, redact_parts
    from engram.trust.display import fence_safe, one_line
    from engram.trust.suspicion import why_suspect
    from engram.trust.voice import split_typed, typed_text

__all__ = [
    "drop_private",
    "env_values",
    "fence_safe",
    "hash_value",
    "one_line",
    "redact",
    "redact_parts",
    "split_typed",
    "typed_text",
    "why_suspect",
]

_HOMES = {
    "drop_private": "engram.redaction.fixed_forms",
    "env_values": "engram.redaction.known_values",
    "fence_safe": "engram.trust.display",
    "hash_value": "engram.redaction.known_values",
    "one_line": "engram.trust.display",
    "redact": "engram.redaction.redactor",
    "redact_parts": "engram.redaction.redactor",
    "split_typed": "engram.trust.voice",
    "typed_text": "engram.trust.voice",
    "why_suspect": "engram.trust.suspicion",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    member = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = member
    return member
