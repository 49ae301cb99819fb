"""Remove secrets before anything is stored, embedded, logged or sent.

Names are loaded when they are first used, because compiling the patterns for secrets takes time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engram.redaction.fixed_forms import drop_private
    from engram.redaction.known_values import env_values, hash_value
    from engram.redaction.redactor import redact, redact_parts

__all__ = [
    "drop_private",
    "env_values",
    "hash_value",
    "redact",
    "redact_parts",
]

_HOMES = {
    "drop_private": "engram.redaction.fixed_forms",
    "env_values": "engram.redaction.known_values",
    "hash_value": "engram.redaction.known_values",
    "redact": "engram.redaction.redactor",
    "redact_parts": "engram.redaction.redactor",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    member = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = member
    return member
