"""Whether a hit still stands: the words that mark one that was replaced, set aside or may no longer hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def standing_of(hit: Mapping[str, Any]) -> str:
    """What a reader must know of a hit in the form of ``--json`` before believing it; "" for one that stands.

    "superseded by ep_…", "archived", "may no longer hold: <reason>", "marked as bad"; several are joined.
    """
    marks = []
    if hit.get("status") == "superseded":
        marks.append(f"superseded by {hit['superseded_by']}" if hit.get("superseded_by") else "superseded")
    elif hit.get("status") in ("archived", "suspect"):
        marks.append(str(hit["status"]))
    if hit.get("stale"):
        marks.append(f"may no longer hold: {hit['stale']}")
    if hit.get("lowered"):
        marks.append("marked as bad")
    return "; ".join(marks)
