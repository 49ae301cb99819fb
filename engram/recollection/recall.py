"""The real path from a prompt to its bites: memories that fit, supported by what was said in their turns."""

from __future__ import annotations

from engram.recollection.choose import Asking, Bite, Floors, choose_bites
from engram.recollection.relevance import Support
from engram.recollection.searching import NO_PROJECT, Searcher
from engram.recollection.tool_context import ToolCall, choose_at_hand
from engram.search.question.query import Query

#: Memories that are looked at for three bites.
CANDIDATES = 20
#: Passages that are looked at for support.
PASSAGES = 40


def bites_for(searcher: Searcher, asking: Asking, floors: Floors | None = None) -> list[Bite]:
    """The bites for a prompt; mostly none. Nothing is noted: asking again gives the same."""
    query = query_for(asking)
    hits = searcher.recall(query)
    support = Support.of(searcher.search(query_for(asking, PASSAGES)) if hits else [])
    return choose_bites(hits, asking, support, floors)


def bites_at_hand(searcher: Searcher, asking: Asking, call: ToolCall) -> list[Bite]:
    """The bite for a tool call; mostly none."""
    return choose_at_hand(searcher.recall(query_for(asking, call=call)), asking, call)


def query_for(asking: Asking, limit: int = CANDIDATES, call: ToolCall | None = None) -> Query:
    """The question that is put to the memory: own project and global scope; what is found is judged by the caller."""
    return Query(
        asking.text,
        NO_PROJECT if asking.project_id is None else asking.project_id,
        limit=limit,
        now_ms=asking.now_ms or None,
        session_id=asking.session_id,
        files=call.files if call else (),
        command=call.command if call else "",
        error=call.error if call else "",
        thorough=True,
    )
