"""Limits that the tools' schemas and the tools share."""

from __future__ import annotations

from typing import Final

#: Maximum number of hits that a tool returns.
MAX_HITS: Final = 25
