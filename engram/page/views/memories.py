"""The list of memories, and the search: by words while typing, then the answer of ``engram recall``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engram.enums import Kind, Scope
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import usefulness_of
from engram.models.memories.memory_records import Memory, find_memory, memories_by_row
from engram.models.projects.projects import list_projects
from engram.models.search.fulltext import Term, search_memories, search_passages
from engram.models.search.memory_lists import MAX_COUNTED, Selection, State, browse
from engram.models.sessions.passage_rows import passage_rows, passage_turns
from engram.models.shown.usage import count_memories_since
from engram.page.rendering import speaker_of, title_and_rest
from engram.page.view import Answer, PageRequest, Route, View, assistants_of, start_of
from engram.reports.health import take_vitals
from engram.system.clock import parse_time_ms
from engram.text.words import MAX_QUERY_CHARS, is_unspaced, question_words_of, terms_of
from engram.trust.display import cut_at_word, number_of
from engram.worker.worker_client import ask_worker

#: Maximum number of memories on one page of the list.
MAX_ROWS = 25
#: Maximum number of hits in an answer, of texts that contain the words, and of passages read to find them.
MAX_HITS, MAX_SAID, MAX_READ = 8, 5, 20
#: Maximum number of hits that are not folded away.
MAX_OPEN_HITS = 3
#: Maximum length of the text of an answer's first hit, and of each other hit, in characters.
MAX_FIRST_CHARACTERS, MAX_OTHER_CHARACTERS = 900, 420
#: Maximum number of memories listed for a search without matches.
MAX_NEAREST = 5
#: Kind → what it means.
KINDS: Mapping[str, str] = {
    "decision": "what was decided, and why",
    "preference": "how you want things done",
    "fix": "what put an error right",
    "fact": "how something is or works",
    "state": "what was unfinished or open",
    "dead-end": "what was tried and did not work",
    "turn": "all of what was said",
}
#: States of memories that no longer count.
PAST = (State.REPLACED, State.ARCHIVED)
#: State → its name in the list.
STATES = {state: "held back" if state is State.SUSPECT else state.value for state in State}
#: The choice of memories in any state.
EVERY_STATE = "all"
#: Role of a text → who said it.
WHO: Mapping[str, str] = {"user": "you said", "assistant": "{} said"}
#: Minimum length of a question, in characters.
MIN_ASKED_CHARACTERS = 3
#: Time limit for the worker's answer, in seconds.
ANSWER_SECONDS = 3.0
#: Maximum number of projects offered as filters: those with the most memories.
MAX_PROJECTS = 8


@dataclass(frozen=True, slots=True)
class Found:
    #: Path of the view that shows it; empty for a hit without one, such as a note.
    path: tuple[str, ...]
    #: Title of a memory; "" for what was said, which speaks for itself.
    title: str
    #: Title of the session in which it was said; "" for none.
    session: str
    #: Its text, with line breaks: a speaker's name, or "" if there is only one speaker, and what they said.
    said: Sequence[tuple[str, str]]
    #: The kind of result, such as ``fix`` or ``you said``.
    what: str
    project: str
    at_ms: int
    #: Why it is less certain; "" if it isn't.
    doubt: str
    #: The command that resumes the session; "" if there is none.
    resume: str


@dataclass(frozen=True, slots=True)
class Said:
    """A text that was said, possibly several times."""

    #: Path of the latest turn in which it was said.
    path: tuple[str, ...]
    text: str
    what: str
    project: str
    at_ms: int
    times: int


def show(request: PageRequest) -> Answer:
    """List memories that match the words; the answer to a question follows once typing pauses."""
    selection = _selection(request)
    # A list that is reloaded after a change is rendered as on a full page; the answer comes later only while typing.
    is_again = request.target == "listed"
    values = _list_values(request, selection) | {"is_typed": request.is_fragment and not is_again}
    if not values["is_typed"]:
        answer = _answer_values(request, selection) if values["is_question"] else {}
        return Answer("memories.html", _counted(values | answer), block="main" if is_again else "")
    values = _counted(values)
    query = {"q": selection.text, "kind": selection.kind, "state": str(values["state"])}
    return Answer("memories.html", values, block="main", replace_url=(("m",), query))


def show_answer(request: PageRequest) -> Answer:
    """Answer a question that was typed, and list the memories that the answer does not contain."""
    selection = _selection(request)
    values = _list_values(request, selection) | _answer_values(request, selection)
    return Answer("parts/answered.html", _counted(values) | {"is_late": True})


def _list_values(request: PageRequest, selection: Selection) -> dict[str, Any]:
    offset = request.number("from")
    # Request one more than is shown, to find out whether there is a next page.
    listing = browse(request.store, selection, limit=MAX_ROWS + 1, offset=offset)
    memories, facets = listing.memories[:MAX_ROWS], listing.facets
    if selection.text and not (selection.kind or selection.state) and facets is not None and not facets.total:
        memories = _nearest(request, selection)
    return {
        "asked": selection.text,
        "kind": selection.kind,
        # The choice itself: empty for the default, which only the list has, so that a search is not limited to it.
        "state": _chosen_state(request),
        "in_state": selection.state.value if selection.state else "",
        "kinds": KINDS,
        "state_names": STATES,
        "memories": memories,
        "uses": usefulness_of(request.store, [memory.episode_id for memory in memories]),
        "facets": facets,
        "past": 0 if facets is None else sum(facets.states.get(state, 0) for state in PAST),
        "projects": [] if facets is None else _projects(request.store, facets.projects),
        "next": offset + MAX_ROWS if len(listing.memories) > MAX_ROWS else None,
        "offset": offset,
        "is_question": not offset and _is_question(selection.text, bool(memories)),
        "is_late": False,
    }


def _is_question(text: str, is_found: bool) -> bool:
    """Return True unless the text is too short, or a single word that memories contain, which is looked up."""
    return len(text) >= MIN_ASKED_CHARACTERS and not (_is_word(text) and is_found)


def _is_word(text: str) -> bool:
    return len(text.split()) == 1 and not is_unspaced(text)


def _counted(values: dict[str, Any]) -> dict[str, Any]:
    """Remove memories from the list that the answer above it shows without being unfolded, and say what is listed."""
    told = {hit.path[-1] for hit in values.get("hits", ()) if hit.path[:1] == ("m",)}
    rest = [memory for memory in values["memories"] if memory.episode_id not in told]
    above = len(values["memories"]) - len(rest)
    has_no_answer = values.get("is_missing") is False and not values["hits"] and not values["folded"]
    filters = [f"{values['kind']}: {KINDS[values['kind']]}" if values["kind"] else ""]
    filters += [STATES[State(values["state"])]] if values["state"] in STATES else []
    if values["facets"] is None:
        counted = f"More than {MAX_COUNTED:,} match: the latest of them"
    elif values["asked"]:
        counted = say_found(
            values["facets"].total, len(rest), above, is_word=_is_word(values["asked"]), has_no_answer=has_no_answer
        )
    else:
        past = 0 if any(filters) else values["past"]
        counted = number_of(values["facets"].total - (0 if values["in_state"] else past), "memory", "memories")
        counted += f", and {past:,} replaced or archived" if past else ""
    return values | {"memories": rest, "counted": " · ".join(filter(None, [counted, *filters]))}


def say_found(total: int, listed: int, above: int, *, has_no_answer: bool, is_word: bool = False) -> str:
    """Return how many memories have the words of a search, and where they are; "" if the answer says that none has.

    Args:
        total: number of memories with all of the words.
        listed: number of memories in the list: if none has all of the words, those with some of them.
        above: number of memories that are in the answer and therefore not in the list.
        has_no_answer: True if the answer is that nothing was found.
        is_word: True if a single word was searched for.
    """
    if total:
        words = "this word" if is_word else "these words"
        told = number_of(total, f"memory with {words}", f"memories with {words}")
        return told + (f", {f'{above:,} of them ' if listed else ''}in the answer above" if above else "")
    some = " and ".join(filter(None, ["the answer above" if above else "", "these" if listed else ""]))
    none = "No memory has this word" if is_word else "No memory has all of these words"
    if not some:
        return "" if has_no_answer else none
    part = "a part of it" if is_word else "some of them"
    return f"{none}; {some} {'have' if listed else 'has'} {part}"


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
        start = start_of(
            request.store, take_vitals(request.store, request.settings, with_files=False), request.settings
        )
        said = _said(request, selection.text)
        return {"is_missing": True, "hits": [], "folded": [], "said": said, "start": start}
    limits = [MAX_FIRST_CHARACTERS, *[MAX_OTHER_CHARACTERS] * len(hits)]
    found = [shown for hit, limit in zip(hits, limits, strict=False) if (shown := _found(request.store, hit, limit))]
    # The command that resumes a session is shown only with its first hit.
    first = {hit.resume: index for index, hit in reversed(list(enumerate(found)))}
    found = [hit if first[hit.resume] == index else replace(hit, resume="") for index, hit in enumerate(found)]
    open_hits = 0 if all(hit["doubtful"] for hit in hits) else MAX_OPEN_HITS
    is_unsure = all(hit["doubtful"] or hit.get("unsure") for hit in hits)
    return {
        "is_missing": False,
        "is_unsure": is_unsure,
        "hits": found[:open_hits],
        "folded": found[open_hits:],
        "said": [],
    }


def _found(store: Store, hit: Mapping[str, Any], limit: int) -> Found | None:
    """Return a hit as the page shows it; None for a memory that has been deleted in the meantime.

    Args:
        limit: maximum length of its text, in characters.
    """
    at_ms, doubt, place = parse_time_ms(hit["created_at"]) or 0, "", hit["project"]
    title, text = "", str(hit["text"]).strip()
    # Below the answer, because it may say the contrary: what was asked for is not always what was done.
    session = str(hit.get("session_title") or "")
    path: tuple[str, ...] = ("s", hit["session"]) if hit["session"] else ()
    assistant = str(hit.get("assistant") or "Claude")
    what = WHO.get(hit["role"], "asked and answered" if hit["kind"] == "turn" else str(hit["kind"])).format(assistant)
    if str(hit["id"]).startswith("ep_"):
        memory = find_memory(store, hit["id"])
        if memory is None:
            return None
        path, what, session = ("m", memory.episode_id), memory.kind.value, ""
        title, text = title_and_rest(memory)
        place = "everywhere" if memory.scope is Scope.GLOBAL else place
        doubt = memory.suspect or hit["stale"] or hit["contradicted_by"] or ""
        doubt = "held back: " + doubt if memory.suspect else doubt and f"may no longer hold: {doubt}"
    elif str(hit["id"]).startswith("q_"):
        path = ("m", hit["id"])
    elif hit["kind"] == "session":
        what = "what the session was about"
    elif hit["kind"] == "note":
        path, session, what = (), "", f"note {str(hit['id']).rpartition('#')[0].rpartition('/')[2]}"
    # Only a text of several speakers names them; in any other one, such a name is part of what was said.
    has_speakers = hit["kind"] == "turn" and not hit["role"]
    said = _cut_parts(_by_speaker(text, assistant) if has_speakers else [("", text)], limit)
    if followed := hit.get("followed"):
        later = _by_speaker(str(followed), assistant)
        said += [
            (f"{name} later" if name else "Later", cut_at_word(words, MAX_OTHER_CHARACTERS)) for name, words in later
        ]
    if outcome := hit.get("outcome"):
        said.append((f"{assistant} in the end", cut_at_word(str(outcome), MAX_OTHER_CHARACTERS)))
    resume, folder = str(hit.get("resume") or ""), str(hit.get("folder") or "")
    if os.path.isdir(folder):
        from engram.search.hits import in_folder  # loads the search

        resume = in_folder(resume, folder, "")
    return Found(path, title, session, said, what, place, at_ms, doubt, resume)


def _by_speaker(text: str, assistant: str) -> list[tuple[str, str]]:
    """Return the parts of a text with several speakers, each after its speaker's name."""
    # Imported here, so that the page loads the search for an answer only.
    from engram.search.hits import NAMED_SPEAKER
    from engram.search.hits import SPEAKERS as ROLES

    names = {words: speaker_of(role, assistant) for role, words in ROLES.items()}
    first, *rest = NAMED_SPEAKER.split(text)
    parts = [("", first.strip())] if first.strip() else []
    for name, said in zip(rest[::2], rest[1::2], strict=True):
        if parts and parts[-1][0] == names[name]:
            said = f"{parts.pop()[1]}\n{said}"
        parts.append((names[name], said.strip()))
    return parts


def _cut_parts(said: Sequence[tuple[str, str]], limit: int) -> list[tuple[str, str]]:
    """Cut the parts of a text, the longest first, so that what was chosen is not lost to a long proposal before it."""
    cut, room = dict(enumerate(said)), limit
    for left, number in zip(range(len(said), 0, -1), sorted(cut, key=lambda number: len(said[number][1])), strict=True):
        name, text = said[number]
        cut[number] = (name, cut_at_word(text, room // left))
        room -= len(cut[number][1])
    return list(cut.values())


def _projects(store: Store, numbers: Mapping[int, int]) -> list[tuple[str, int]]:
    names = {project.id: project.name for project in list_projects(store)}
    return [(names[row_id], number) for row_id, number in list(numbers.items())[:MAX_PROJECTS] if row_id in names]


def _said(request: PageRequest, text: str) -> list[Said]:
    """Return passages that contain the words, without duplicate texts, for when no worker answers."""
    words = tuple(question_words_of(text))
    ids = [row_id for row_id, _ in search_passages(request.store, [words], MAX_READ, project_id=request.project_id)]
    rows, turns = passage_rows(request.store, ids), passage_turns(request.store, ids)
    names = {project.id: project.name for project in list_projects(request.store)}
    assistants = assistants_of(request.store, [session for session, _ in turns.values()])
    same: dict[str, list[int]] = {}
    for row_id in ids:
        if row_id in rows and row_id in turns:
            same.setdefault(" ".join(rows[row_id].text.casefold().split()), []).append(row_id)
    found = []
    for copies in list(same.values())[:MAX_SAID]:
        latest = rows[max(copies, key=lambda row_id: rows[row_id].at_ms)]
        session, turn = turns[latest.id]
        path = ("s", session, "t", str(turn))
        project = names.get(latest.project_id or 0, "")
        what = WHO.get(latest.role, "said").format(assistants[session])
        found.append(Said(path, latest.text, what, project, latest.at_ms, len(copies)))
    return found


def _nearest(request: PageRequest, selection: Selection) -> tuple[Memory, ...]:
    """For a search without matches, return the best memories with all informative words or, failing that, with some."""
    terms = terms_of(selection.text)

    def search(wanted: Sequence[Term]) -> list[tuple[int, float]]:
        return search_memories(request.store, wanted, MAX_NEAREST, project_id=request.project_id)

    found = (search([tuple(terms)]) or search(terms)) if terms else []
    by_row = memories_by_row(request.store, [row_id for row_id, _ in found])
    return tuple(by_row[row_id] for row_id, _ in found if row_id in by_row)


def _selection(request: PageRequest) -> Selection:
    kind, state = request.query.get("kind", ""), _chosen_state(request)
    text = request.query.get("q", "").strip()[:MAX_QUERY_CHARS]
    # Without a search or a choice, the list shows what counts.
    state = state or ("" if text else State.CURRENT.value)
    return Selection(
        text=text,
        project_id=request.project_id,
        kind=kind if kind in Kind.values() else "",
        state=State(state) if state in STATES else None,
    )


def _chosen_state(request: PageRequest) -> str:
    """Return the state chosen as a filter, ``EVERY_STATE``, or "" for none."""
    state = request.query.get("state", "")
    return state if state in STATES or state == EVERY_STATE else ""


VIEW = View(
    name="memories",
    title="Memories",
    key="m",
    path="m",
    routes=(Route("/m", show), Route("/m/answer", show_answer, is_part=True)),
    count_new=count_memories_since,
)
