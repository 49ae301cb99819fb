"""All memories, and the one search: words as they are typed, and what answers a question, as ``engram recall`` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engram.enums import Kind
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import find_memory
from engram.models.memories.usefulness import usefulness_of
from engram.models.projects.projects import list_projects
from engram.models.search.fulltext import search_passages
from engram.models.search.memory_lists import Selection, State, browse
from engram.models.sessions.passage_rows import passage_rows, passage_turns
from engram.models.shown.usage import count_memories_since
from engram.page.view import Answer, PageRequest, Route, View
from engram.page.views.memory import title_and_rest
from engram.system.clock import parse_time_ms
from engram.text.words import MAX_QUERY_CHARS, question_words_of
from engram.worker.worker_client import ask_worker

#: Maximum number of memories of one list; more follow on the next one.
MAX_ROWS = 25
#: Memories and passages of an answer, and turns in which the words were said.
MAX_HITS, MAX_SAID = 8, 5
#: Fewest characters that are asked about.
MIN_ASKED_CHARACTERS = 3
#: Time for the worker's answer, in seconds.
ANSWER_SECONDS = 3.0
#: Maximum number of projects that are offered, those with the most memories.
MAX_PROJECTS = 8


@dataclass(frozen=True, slots=True)
class Found:
    """One part of an answer."""

    #: Path of what it was found in; empty for what has no view, such as a note.
    path: tuple[str, ...]
    title: str
    text: str
    #: What it is, such as ``fix`` or ``you said``.
    what: str
    project: str
    at_ms: int
    #: What makes it less certain; "" for nothing.
    doubt: str
    #: The command that goes on with the session; "" if there is none.
    resume: str


def show(request: PageRequest) -> Answer:
    """List memories; while somebody types, only what is inside the page is answered, first by words alone."""
    selection = _selection(request)
    offset = _number(request.query.get("from", ""))
    listing = browse(request.store, selection, limit=MAX_ROWS, offset=offset)
    is_question = len(selection.text) >= MIN_ASKED_CHARACTERS and not offset
    values: dict[str, object] = {
        "asked": selection.text,
        "kind": selection.kind,
        "state": selection.state.value if selection.state else "",
        "memories": listing.memories,
        "uses": usefulness_of(request.store, [memory.episode_id for memory in listing.memories]),
        "facets": listing.facets,
        "projects": [] if listing.facets is None else _projects(request.store, listing.facets.projects),
        "next": offset + MAX_ROWS if len(listing.memories) == MAX_ROWS else None,
        "is_question": is_question,
        "is_typed": request.is_fragment,
    }
    if not request.is_fragment:
        return Answer("memories.html", values | (_answer_values(request, selection) if is_question else {}))
    query = {"q": selection.text, "kind": selection.kind, "state": str(values["state"])}
    return Answer("memories.html", values, block="main", replace_url=(("m",), query))


def show_answer(request: PageRequest) -> Answer:
    """Answer a question as ``engram recall`` does, after a pause in typing."""
    return Answer("parts/answer.html", _answer_values(request, _selection(request)))


def _answer_values(request: PageRequest, selection: Selection) -> dict[str, Any]:
    question = {
        "op": "recall",
        "query": selection.text,
        "limit": MAX_HITS,
        "project_id": request.project_id,
        "all_projects": request.project_id is None,
        "branch": "",
        "max_hits": MAX_HITS,
    }
    answer = ask_worker(request.settings.places, question, timeout_seconds=ANSWER_SECONDS)
    hits = answer.get("hits") if answer is not None else None
    if not isinstance(hits, list):
        return {"is_missing": True, "hits": [], "is_doubtful": False, "said": _said(request, selection.text)}
    found = [one for hit in hits if (one := _found(request.store, hit)) is not None]
    is_doubtful = all(hit["doubtful"] for hit in hits)
    return {"is_missing": False, "hits": found, "is_doubtful": is_doubtful, "said": []}


def _found(store: Store, hit: Mapping[str, Any]) -> Found | None:
    """Return what the page shows of a hit; None for a memory that is gone meanwhile."""
    at_ms, doubt = parse_time_ms(hit["created_at"]) or 0, ""
    title, text = "", " ".join(str(hit["text"]).split())
    path: tuple[str, ...] = ("s", hit["session"]) if hit["session"] else ()
    what = {"user": "you said", "assistant": "Claude said"}.get(hit["role"], str(hit["kind"]))
    if str(hit["id"]).startswith("ep_"):
        memory = find_memory(store, hit["id"])
        if memory is None:
            return None
        path, what = ("m", memory.episode_id), memory.kind.value
        title, text = title_and_rest(memory)
        doubt = memory.suspect or hit["stale"] or hit["contradicted_by"] or ""
        doubt = "suspect: " + doubt if memory.suspect else doubt and f"may no longer hold: {doubt}"
    elif str(hit["id"]).startswith("q_"):
        path = ("m", hit["id"])
        text = text if not hit.get("followed") else f"{text} (then {hit['followed']})"
    elif hit["kind"] == "session":
        what = "what the session was about"
    elif hit["kind"] == "note":
        path, what = (), f"note {str(hit['id']).rpartition('#')[0].rpartition('/')[2]}"
    return Found(path, title, text, what, hit["project"], at_ms, doubt, hit.get("resume") or "")


def _projects(store: Store, numbers: Mapping[int, int]) -> list[tuple[str, int]]:
    names = {project.id: project.name for project in list_projects(store)}
    return [(names[row_id], number) for row_id, number in list(numbers.items())[:MAX_PROJECTS] if row_id in names]


def count_new(store: Store, since_ms: int, project_id: int | None) -> int:
    """Count the memories that were kept since a time."""
    return count_memories_since(store, since_ms, project_id)


def _said(request: PageRequest, text: str) -> list[tuple[str, str, int]]:
    """Return (text, session, turn) of passages that hold the words of a search, if no worker ranks them."""
    words = tuple(question_words_of(text))
    ids = [row_id for row_id, _ in search_passages(request.store, [words], MAX_SAID, project_id=request.project_id)]
    rows, turns = passage_rows(request.store, ids), passage_turns(request.store, ids)
    return [(rows[row_id].text, *turns[row_id]) for row_id in ids if row_id in rows and row_id in turns]


def _selection(request: PageRequest) -> Selection:
    kind, state = request.query.get("kind", ""), request.query.get("state", "")
    return Selection(
        text=request.query.get("q", "").strip()[:MAX_QUERY_CHARS],
        project_id=request.project_id,
        kind=kind if kind in Kind.values() else "",
        state=State(state) if state in list(State) else None,
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


VIEW = View(
    name="memories",
    title="Memories",
    key="m",
    path="m",
    routes=(Route("/m", show), Route("/m/answer", show_answer, is_part=True)),
    count_new=count_new,
)
