"""Search for a request and choose its bites: relevant memories, supported by the passages of their turns."""

from __future__ import annotations

from engram.recollection.choose import Bite, InjectionRequest, Thresholds, choose_bites
from engram.recollection.relevance import Support
from engram.recollection.searching import NO_PROJECT, Searcher
from engram.recollection.tool_context import ToolCall, choose_for_tool_call
from engram.search.question.query import Query

#: Number of memories that bites are chosen from.
CANDIDATES = 20
#: Number of passages that may support a memory.
PASSAGES = 40


def bites_for(searcher: Searcher, request: InjectionRequest, thresholds: Thresholds | None = None) -> list[Bite]:
    """Return the bites for a prompt; mostly none. Nothing is stored: the same request gives the same bites."""
    query = query_for(request)
    hits = searcher.recall(query)
    support = Support.of(searcher.search(query_for(request, PASSAGES)) if hits else [])
    return choose_bites(hits, request, support, thresholds)


def bites_for_tool_call(searcher: Searcher, request: InjectionRequest, call: ToolCall) -> list[Bite]:
    """Return the bite for a tool call; mostly none."""
    return choose_for_tool_call(searcher.recall(query_for(request, call=call)), request, call)


def query_for(request: InjectionRequest, limit: int = CANDIDATES, call: ToolCall | None = None) -> Query:
    """Return the query of a request: the session's project and global scope, weak matches included."""
    return Query(
        text=request.text,
        project_id=NO_PROJECT if request.project_id is None else request.project_id,
        limit=limit,
        now_ms=request.now_ms or None,
        session_id=request.session_id,
        branch=request.branch,
        files=call.files if call else (),
        command=call.command if call else "",
        error=call.error if call else "",
        thorough=True,
    )
