"""A hit as JSON: the one shape that the command line, the socket and the MCP server share."""

from __future__ import annotations

from typing import Any

from engram.clock import iso_time
from engram.search.question.query import Hit


def hit_to_json(hit: Hit) -> dict[str, Any]:
    """The form of a hit in ``recall --json`` (with ``summary``) and ``search --json`` (with ``text``)."""
    found: dict[str, Any] = {
        "id": hit.id,
        "kind": hit.kind,
        "summary" if hit.episode is not None else "text": hit.text,
        "score": round(hit.score, 6),
        "parts": {name: round(float(value), 6) for name, value in hit.parts.items()},
        "project": hit.project,
        "created_at": iso_time(hit.created_at_ms) if hit.created_at_ms else None,
        "evidence": [
            {"session": one.session_id, "uuid": one.uuid, "path": one.path, "line": one.line} for one in hit.evidence
        ],
        "session": hit.session_id,
        "status": hit.status,
        "importance": hit.importance,
        "role": hit.role,
    }
    if hit.cosine is not None:
        found["cosine"] = round(hit.cosine, 6)
    if hit.is_doubtful:
        found["doubtful"] = True
    if hit.episode is not None:
        found["stale"] = hit.episode.stale_reason
        found["superseded_by"], found["lowered"] = hit.episode.superseded_by, hit.episode.is_lowered
        found["content"], found["scope"], found["pinned"] = (
            hit.episode.content, hit.episode.scope, hit.episode.is_pinned,
        )  # fmt: skip
    return found
