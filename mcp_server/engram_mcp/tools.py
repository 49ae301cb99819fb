"""The eleven tools as plain functions over an Access: arguments in, text out. Thin skins over services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engram.clock import iso_time, parse_time_ms
from engram.errors import BadRequest
from engram.extraction.correcting import correct_memory
from engram.extraction.saving import pin_memory, require_episode, save_memory
from engram.ingest.folder import scope_of_folder
from engram.models import episode_changes, episode_history, episodes, injections, notes
from engram.models.contradictions import open_contradictions
from engram.models.sessions import ProjectRow
from engram.models.store import Store
from engram.models.turns import places_of
from engram.notes.index import index_notes, read_lines
from engram.notes.saved import save_note
from engram.redaction.display import fence_safe, one_line
from engram_mcp import answers
from engram_mcp.access import Access

#: Most hits that a tool returns.
LIMIT = 25
#: Longest query, in characters; the rest is not read.
QUERY_CHARACTERS = 4000
#: What an answer says when no worker runs.
NO_WORKER = "the worker is not running: text search alone; 'engram up' starts it"


def recall(access: Access, query: str, limit: int, project: str | None) -> str:
    """Ranked memories for a question."""
    hits, note = _find(access, "recall", query, limit, project)
    return answers.recall_lines(hits, note)


def search(access: Access, query: str, limit: int, project: str | None) -> str:
    """Verbatim turns and notes for a question."""
    hits, note = _find(access, "search", query, limit, project)
    return answers.search_lines(hits, note)


def _find(
    access: Access, operation: str, query: str, limit: int, project: str | None
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """Hits from the worker, or by text alone where none runs."""
    if not query.strip():
        raise BadRequest("the query is empty: say what to look for in a few words")
    with access.store() as store:
        place = access.project(store, project)
        request = {
            "op": operation, "query": query[:QUERY_CHARACTERS], "limit": max(1, min(limit, LIMIT)),
            "project_id": None if place is None else place.id,
        }  # fmt: skip
        answer = access.ask(request)
        if answer is not None and isinstance(answer.get("hits"), list):
            return answer["hits"], ""
        return _find_by_text(access, store, request), NO_WORKER


def _find_by_text(access: Access, store: Store, request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    from engram.search.hits import hit_to_json
    from engram.search.service import Query, Searcher

    query = Query(
        text=request["query"], project_id=request["project_id"], limit=request["limit"], now_ms=store.now_ms()
    )
    searcher = Searcher(store, access.settings)
    found = searcher.recall(query) if request["op"] == "recall" else searcher.search(query)
    return [hit_to_json(hit) for hit in found]


def expand(access: Access, episode_id: str) -> str:
    """Everything that is known of one memory; counts the access."""
    with access.store() as store:
        episode = require_episode(store, episode_id)
        episode_changes.note_access(store, episode_id)
        uuids = [one.uuid for one in episodes.evidence_of(store, episode.id) if one.uuid]
        related = episodes.related_episodes(store, episode)
        return answers.expand_text(
            episode, places_of(store, uuids), related, episode_history.history_of(store, episode_id)
        )


def get(access: Access, source: str, start: int | None, lines: int | None) -> str:
    """Lines of a note by the name that search printed."""
    with access.store() as store:
        text = read_lines(store, access.settings, lambda one: access.redact(store, one), source, start, lines)
        return fence_safe(text, keep_lines=True) or "(no lines there)"


def save(
    access: Access,
    content: str,
    scope: str,
    importance: str,
    supersedes: str | None = None,
    is_pinned: bool = False,
    cwd: str | None = None,
    kind: str | None = None,
) -> str:
    """Keep a text as a memory, or as a note of the day."""
    with access.store() as store:
        if scope == "note":
            project = scope_of_folder(store, access.settings, cwd or access.folder).project
            path = save_note(
                access.settings.places, content, lambda one: access.redact(store, one), store.now_ms(),
                project=project.name if project else "",
            )  # fmt: skip
            index_notes(store, access.settings, lambda one: access.redact(store, one))
            return f"Saved in the note saved/{path.name}. memory_search finds it; memory_get reads it."
        place = scope_of_folder(store, access.settings, cwd or access.folder, make=scope == "project")
        if scope == "project" and place.project is None:
            scope = "global"
        made = save_memory(
            store, content, lambda one: access.redact(store, one), scope=scope, importance=importance,
            project_id=place.project.id if place.project else None, session_id=access.session_id,
            supersedes=supersedes, is_pinned=is_pinned, kind=kind or "fact",
        )  # fmt: skip
        where = f"project {place.project.name}" if made.scope == "project" and place.project else "every project"
        is_open = bool(open_contradictions(store, made.episode_id))
    access.ask({"op": "wake"})
    replaced = f" It replaces {supersedes}." if supersedes else ""
    replaced = answers.contradiction_line(supersedes, made.episode_id) if supersedes and is_open else replaced
    return f"Saved for {where} — ID: {made.episode_id}.{replaced}"


def forget(access: Access, episode_id: str, *, also_source: bool = False, project: str | None = None) -> str:
    """Delete a memory and the words that it alone rests on, or whole turns, everywhere."""
    from engram.consolidation.forget import forget_episode

    with access.store() as store:
        _visible_episode(access, store, episode_id, project)
        report = forget_episode(store, access.settings.places, episode_id, also_source=also_source)
    access.ask({"op": "wake"})
    return f"Forgotten for good: {fence_safe(report.describe(), keep_lines=True)}"


def correct(access: Access, episode_id: str, text: str, why: str, project: str | None = None) -> str:
    """Replace a memory by another text; what is a person's own is left for them to decide."""
    with access.store() as store:
        _visible_episode(access, store, episode_id, project)
        done = correct_memory(
            store, episode_id, text, why, lambda one: access.redact(store, one), session_id=access.session_id
        )
    access.ask({"op": "wake"})
    if done.contradiction:
        return f"Kept — ID: {done.made.episode_id}.{answers.contradiction_line(episode_id, done.made.episode_id)}"
    return f"Corrected — ID: {done.made.episode_id}. It replaces {episode_id}."


def pin(access: Access, episode_id: str, *, is_pinned: bool = True) -> str:
    """Pin a memory, or unpin it."""
    with access.store() as store:
        _visible_episode(access, store, episode_id, None)
        changed = pin_memory(store, episode_id, is_pinned=is_pinned)
    access.ask({"op": "wake"})
    what = "heads every briefing and never ages" if is_pinned else "is no longer pinned"
    return f"{episode_id} {what}: {one_line(changed.summary, 200)}"


def _visible_episode(access: Access, store: Store, episode_id: str, project: str | None) -> episodes.Episode:
    """The memory of an id; ``project`` names the project that it may belong to. Raises NotFound."""
    access.project(store, project)
    return require_episode(store, episode_id)


def status(access: Access) -> str:
    """What there is, and whether the worker runs."""
    with access.store() as store:
        worker = access.ask({"op": "status"}) or {}
        home = access.settings.places
        lines = [
            f"worker: running, pid {worker.get('pid')}, up {_duration(worker.get('uptime_seconds'))}, "
            f"{worker.get('rss_mb')} MB"
            if worker
            else f"worker: {NO_WORKER}",
            f"socket: {home.recall_socket} ({'answers' if worker else 'no answer'})",
            f"schema: {store.schema_version()}",
            *_episode_lines(store),
            "notes: {} files, {} chunks".format(*notes.count_notes(store)),
            f"recollections waiting: {sum(1 for _ in home.recollections.glob('*.pending'))}",
            f"path: {home.root}",
        ]
        return "\n".join(lines)


def _episode_lines(store: Store) -> list[str]:
    counts = list(episodes.count_episodes(store))
    total = sum(number for *_, number in counts)
    return [f"episodes: {total}"] + [
        f"- {project or 'no project'}, {importance}, {state}: {number}" for project, importance, state, number in counts
    ]


def _duration(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "?"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def timeline(access: Access, around: str | None, project: str | None, limit: int) -> str:
    """Memories around a memory or a date, or the latest ones, the oldest first."""
    count = max(1, min(limit, LIMIT * 2))
    with access.store() as store:
        place = access.project(store, project)
        if around is None:
            found = episodes.latest_episodes(store, project_id=None if place is None else place.id, limit=count)
            return answers.timeline_lines(found[::-1])
        return answers.timeline_lines(_around(store, around, place, count))


def _around(store: Store, around: str, place: ProjectRow | None, count: int) -> list[episodes.Episode]:
    if episodes.is_episode_id(around):
        anchor = require_episode(store, around)
        at_ms, project_id = anchor.created_at_ms, anchor.project_id
    else:
        found = parse_time_ms(around)
        if found is None:
            raise BadRequest(
                f"around {around[:40]!r} is neither a memory's id nor a date such as {iso_time(store.now_ms())[:10]}"
            )
        at_ms, project_id = found, None if place is None else place.id
    return episodes.episodes_around(store, at_ms, project_id=project_id, limit=count)


def context(access: Access, project: str | None) -> str:
    """The briefing of a project; one line where this session has had it."""
    from engram.recollection.briefing import build_briefing, told_in

    with access.store() as store:
        place = access.project(store, project)
        if (
            access.session_id
            and not project
            and ("briefing" in {s[0] for s in injections.shown_of_session(store, access.session_id)})
        ):
            return "This session has had its briefing; memory_recall finds more."
        text = build_briefing(store, access.settings, project_id=None if place is None else place.id)
        if access.session_id and text and not project:
            told = injections.told_at_start(access.session_id, told_in(text), store.now_ms())
            with store.writing():
                injections.note_shown(store, access.session_id, "briefing", len(text) // 4)
                injections.add_injections(store, told)
        return text or "Nothing is kept for this project yet."
