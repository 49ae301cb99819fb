"""Limits that the tools' schemas and the tools share."""

from __future__ import annotations

from typing import Final

#: Maximum number of hits that a tool returns.
MAX_HITS: Final = 25
#: Number of hits of ``memory_search`` by default, and of memories of ``memory_recall``; words then limit its passages.
#: Any other limit of ``memory_recall`` holds for everything.
DEFAULT_HITS: Final = 5
