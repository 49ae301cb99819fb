"""Hits as a search makes them, for tests of what is printed of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engram.enums import Importance, Scope, Status
from engram.search.hits import MemoryFields, PublicHit

#: What a memory has of which nothing is worth a remark.
PLAIN = MemoryFields(
    content="",
    scope=Scope.PROJECT,
    is_pinned=False,
    is_lowered=False,
    superseded_by="",
    stale_reason="",
    branch="",
    told_by="",
    suspect="",
)
#: Something that Claude said.
SAID = PublicHit(
    id="q_0123456789ab1",
    kind="turn",
    text="Logs go to stdout.",
    score=1.0,
    parts={},
    project="harbor",
    created_at_ms=1_771_545_600_000,
    evidence=(),
    session_id="s-1",
    status=Status.ACTIVE,
    importance=Importance.NORMAL,
    role="assistant",
    cosine=None,
    is_doubtful=False,
    memory=None,
)


def hit(**values: Any) -> PublicHit:
    """Something that was said, but for these fields."""
    return replace(SAID, **values)


def memory_hit(**values: Any) -> PublicHit:
    """A decision that was replaced, but for these fields."""
    made = hit(id="ep_0123456789ab", kind="decision", status=Status.SUPERSEDED, role="", memory=PLAIN)
    return replace(made, **values)
