"""Search for a request and rate what is found: relevant memories, supported by the passages that they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engram.recollection.choose import InjectionRequest, RatedHit, Thresholds, rate_hits
from engram.recollection.scope import NO_PROJECT
from engram.recollection.tool_context import ToolCall, rate_for_tool_call
from engram.search.episodes.support import Support
from engram.search.hits import Hit
from engram.search.question.query import Query

#: Number of memories that bites are chosen from.
CANDIDATES = 20


class Searcher(Protocol):
    """Ranks memories and passages. Any thread may call it."""

    def recall(self, query: Query) -> Sequence[Hit]:
        """Return memories, the best first."""

    def support(self, query: Query, hits: Sequence[Hit]) -> Support:
        """Return what passages, other memories and rare words say about memories that were found for a prompt."""

    def quotable(self, query: Query) -> tuple[Sequence[Hit], Support]:
        """Return single passages that may answer a prompt, the best first, and what speaks for them."""


def rate_for_prompt(
    searcher: Searcher, request: InjectionRequest, thresholds: Thresholds | None = None
) -> list[RatedHit]:
    """Say of every memory that was found whether it becomes a bite for a prompt; mostly none does.

    Nothing is stored: the same request gives the same bites.
    """
    query = query_for(request)
    hits = searcher.recall(query)
    return rate_hits(hits, request, searcher.support(query, hits) if hits else None, thresholds)


def rate_for_call(searcher: Searcher, request: InjectionRequest, call: ToolCall) -> list[RatedHit]:
    """Say of every memory that was found whether it becomes the bite for a tool call; mostly none does."""
    return rate_for_tool_call(searcher.recall(query_for(request, call=call)), request, call)


def query_for(request: InjectionRequest, call: ToolCall | None = None) -> Query:
    """Return the query of a request: the session's project and global scope, weak matches included."""
    return Query(
        text=request.text,
        project_id=NO_PROJECT if request.project_id is None else request.project_id,
        limit=CANDIDATES,
        now_ms=request.now_ms or None,
        session_id=request.session_id,
        branch=request.branch,
        files=call.files if call else (),
        command=call.command if call else "",
        error=call.error if call else "",
        thorough=True,
    )
