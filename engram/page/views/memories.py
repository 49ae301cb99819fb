"""All memories: by words as they are typed, by kind, project and state with their numbers, and by meaning."""

from __future__ import annotations

from engram.enums import Kind
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.projects.projects import list_projects
from engram.models.search.fulltext import search_passages
from engram.models.search.memory_lists import Selection, State, browse
from engram.models.sessions.passage_rows import passage_rows, passage_turns
from engram.models.shown.usage import count_memories_since
from engram.page.view import Answer, PageRequest, Route, View
from engram.text.words import MAX_QUERY_CHARS, question_words_of
from engram.worker.client import ask_worker

#: Memories of one list; more follow on the next one.
MAX_ROWS = 30
#: Memories that are found by meaning, and turns in which the words were said.
MAX_MEANT, MAX_SAID = 12, 5
#: Fewest characters that are searched for by meaning.
MIN_MEANT_CHARACTERS = 3
#: Time for the worker's answer, in seconds.
MEANING_SECONDS = 3.0
#: Projects that are offered beside the list, those with the most memories.
MAX_PROJECTS = 8


def show(request: PageRequest) -> Answer:
    """List memories; while somebody types, only the list is answered."""
    selection = _selection(request)
    offset = _number(request.query.get("from", ""))
    listing = browse(request.store, selection, limit=MAX_ROWS, offset=offset)
    names = {project.id: project.name for project in list_projects(request.store)}
    facets = listing.facets
    values: dict[str, object] = {
        "text": selection.text,
        "kind": selection.kind,
        "state": selection.state.value if selection.state else "",
        "memories": listing.memories,
        "facets": facets,
        "projects": []
        if facets is None
        else [
            (names[project_id], number)
            for project_id, number in list(facets.projects.items())[:MAX_PROJECTS]
            if project_id in names
        ],
        "next": offset + MAX_ROWS if len(listing.memories) == MAX_ROWS else None,
        "offset": offset,
        "is_meant": len(selection.text) >= MIN_MEANT_CHARACTERS and not offset,
        "detail": None,
    }
    if not request.is_fragment:
        return Answer("memories.html", values)
    query = {"q": selection.text, "kind": selection.kind, "state": str(values["state"])}
    return Answer("memories.html", values, block="found", replace_url=(("m",), query))


def show_meant(request: PageRequest) -> Answer:
    """List what fits by meaning, which the worker knows, and where the words were said although nothing was kept."""
    selection = _selection(request)
    listed = set(request.query.get("listed", "").split(","))
    meant = _meant(request, selection.text)
    found = [(memory, score) for memory, score in meant or () if memory.episode_id not in listed]
    return Answer(
        "meant.html",
        {
            "is_missing": meant is None,
            "meant": found,
            "said": _said(request, selection.text) if not listed - {""} else [],
            "is_doubtful": bool(found) and not (listed - {""}),
        },
    )


def count_new(store: Store, since_ms: int, project_id: int | None) -> int:
    """Count the memories that were kept since a time."""
    return count_memories_since(store, since_ms, project_id)


def _meant(request: PageRequest, text: str) -> list[tuple[Memory, float]] | None:
    """Return memories by meaning, the best first; None if no worker answers."""
    question = {
        "op": "rank",
        "query": text[:MAX_QUERY_CHARS],
        "limit": MAX_MEANT,
        "project_id": request.project_id,
        "all_projects": request.project_id is None,
    }
    answer = ask_worker(request.settings.places, question, timeout_seconds=MEANING_SECONDS)
    if answer is None or "hits" not in answer:
        return None
    found = [(find_memory(request.store, hit["id"]), hit["score"]) for hit in answer["hits"]]
    return [(memory, score) for memory, score in found if memory is not None]


def _said(request: PageRequest, text: str) -> list[tuple[str, str, int]]:
    """Return (text, session, turn) of passages that hold the words of a search that found no memory."""
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
    routes=(Route("/m", show), Route("/m/meant", show_meant, is_part=True)),
    count_new=count_new,
)
