"""The tools as plain functions over an Access: arguments in, text out. Thin skins over services.

What a single tool needs is imported in it: the first answer of the server waits for nothing else.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from engram.clock import iso_time, parse_time_ms
from engram.enums import Importance, Kind, Scope
from engram.errors import BadRequest
from engram.ingest.folder import scope_of_folder
from engram.models import contexts, episode_changes, episode_history, episodes, injections, notes
from engram.models.contradictions import open_contradictions
from engram.models.sessions import ProjectRow
from engram.models.store import Store
from engram.models.turns import places_of
from engram.redaction.display import fence_safe, one_line
from engram.search.hits import PublicHit
from engram.worker.recall_client import AnsweredBy, Operation, RecallRequest, ask_memory
from engram_mcp import answers
from engram_mcp.access import Access, View, shown_name

#: Most hits that a tool returns.
LIMIT = 25
#: What an answer says when no worker runs.
NO_WORKER = "the worker is not running: text search alone; 'engram up' starts it"
#: What ``memory_status`` says when no watcher runs.
NO_WATCHER = "it is not running: what is said now is not kept; 'engram up' starts it"


def recall(access: Access, query: str, limit: int, project: str | None) -> str:
    """Ranked memories for a question."""
    hits, view, note = _find(access, Operation.RECALL, query, limit, project)
    return answers.recall_lines(hits, note, view.project.name if view.project else "")


def search(access: Access, query: str, limit: int, project: str | None) -> str:
    """Verbatim turns and notes for a question."""
    hits, _, note = _find(access, Operation.SEARCH, query, limit, project)
    return answers.search_lines(hits, note)


def _find(
    access: Access, operation: Operation, query: str, limit: int, project: str | None
) -> tuple[Sequence[PublicHit], View, str]:
    """Hits with the view they come from and what to say about them. Without a worker the text alone is searched."""
    if not query.strip():
        raise BadRequest("the query is empty: say what to look for in a few words")
    with access.store() as store:
        view = access.view(store, project)
        request = RecallRequest(
            operation=operation, text=query, limit=max(1, min(limit, LIMIT)), project_id=view.project_id
        )
        response = ask_memory(store, access.settings, request, with_model=False)
        no_worker = "" if response.answered_by is AnsweredBy.WORKER else NO_WORKER
        return response.hits, view, "; ".join(part for part in (view.note, no_worker) if part)


def expand(access: Access, episode_id: str, project: str | None = None) -> str:
    """Everything that is known of one memory; counts the access."""
    with access.store() as store:
        view = access.view(store, project)
        episode = view.require(store, episode_id)
        episode_changes.note_access(store, episode_id)
        related = episodes.related_episodes(store, episode, view.project_id)
        if not episodes.may_see_context(episode, view.project_id):
            return answers.foreign_text(episode, related) + answers.tail(view.note)
        history = episode_history.history_of(store, episode_id)
        if not view.is_own(episode):
            nameless = dataclasses.replace(episode, project="another one")
            return answers.expand_text(nameless, [], related, history) + answers.tail(view.note)
        uuids = [entry.uuid for entry in episodes.evidence_of(store, episode.id) if entry.uuid]
        return answers.expand_text(episode, places_of(store, uuids), related, history) + answers.tail(view.note)


def get(access: Access, source: str, start: int | None, lines: int | None, project: str | None = None) -> str:
    """Lines of a note by the name that search printed, without those of other projects."""
    from engram.notes.index import read_lines

    with access.store() as store:
        view = access.view(store, project)
        text = read_lines(
            store,
            access.settings,
            lambda text: access.redact(store, text),
            source,
            start,
            lines,
            project_id=view.project_id,
        )
        return (fence_safe(text, keep_lines=True) or "(no lines there)") + answers.tail(view.note)


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
    from engram.memories.save import save_memory

    with access.store() as store:
        place = scope_of_folder(store, access.settings, cwd or access.folder, make=scope != Scope.GLOBAL)
        if scope == "note":
            return _save_note(access, store, content, place.project)
        is_global = Scope.parse(scope) is Scope.GLOBAL or place.project is None
        if supersedes is not None:
            access.view(store).require(store, supersedes)
        made = save_memory(
            store,
            content,
            lambda text: access.redact(store, text),
            scope=Scope.GLOBAL if is_global else Scope.PROJECT,
            importance=Importance.parse(importance),
            project_id=place.project.id if place.project else None,
            session_id=access.session_id,
            supersedes=supersedes,
            is_pinned=is_pinned,
            kind=Kind.FACT if kind is None else Kind.parse(kind),
        )
        is_own = made.scope == Scope.PROJECT and place.project is not None
        where = f"project {shown_name(place.project.name)}" if is_own and place.project else "every project"
        is_open = bool(open_contradictions(store, made.episode_id))
    access.ask({"op": "wake"})
    replaced = ""
    if supersedes:
        replaced = answers.contradiction_line(supersedes, made.episode_id) if is_open else f" It replaces {supersedes}."
    return f"Saved for {where} — ID: {made.episode_id}.{replaced}"


def _save_note(access: Access, store: Store, content: str, project: ProjectRow | None) -> str:
    from engram.notes.index import index_notes
    from engram.notes.saved import save_note

    def redact(text: str) -> str:
        return access.redact(store, text)

    path = save_note(access.settings.places, content, redact, store.now_ms(), project.name if project else "")
    index_notes(store, access.settings, redact)
    source = path.relative_to(access.settings.places.notes).as_posix()
    if project is None:
        return f"Saved in the note {source}; since this folder is no project, only the user's 'engram search' finds it."
    return f"Saved in the note {source} for project {shown_name(project.name)}. memory_search and memory_get find it."


def forget(access: Access, episode_id: str, is_source_forgotten: bool = False, project: str | None = None) -> str:
    """Delete a memory and the words that it alone rests on, or whole turns, everywhere."""
    from engram.memories.forget import forget_episode

    with access.store() as store:
        view = access.view(store, project)
        episode = view.require(store, episode_id)
        if is_source_forgotten and not view.is_own(episode):
            raise BadRequest(
                "it was said in another project, whose turns stay: forget it without also_source, or name that project "
                "with project= where the user wants its turns gone"
            )
        report = forget_episode(store, access.settings.places, episode_id, also_source=is_source_forgotten)
        said = report.describe(lambda memory: episodes.may_see(memory, view.project_id))
    access.ask({"op": "wake"})
    return f"Forgotten for good: {fence_safe(said, keep_lines=True)}" + answers.tail(view.note)


def correct(access: Access, episode_id: str, text: str, why: str, project: str | None = None) -> str:
    """Replace a memory by another text; what is a person's own is left for them to decide."""
    from engram.memories.correct import correct_memory

    with access.store() as store:
        view = access.view(store, project)
        view.require(store, episode_id)
        done = correct_memory(
            store, episode_id, text, why, lambda text: access.redact(store, text), session_id=access.session_id
        )
    access.ask({"op": "wake"})
    if done.contradiction:
        said = f"Kept — ID: {done.made.episode_id}.{answers.contradiction_line(episode_id, done.made.episode_id)}"
    else:
        said = f"Corrected — ID: {done.made.episode_id}. It replaces {episode_id}."
    return said + answers.tail(view.note)


def pin(access: Access, episode_id: str, is_pinned: bool = True, project: str | None = None) -> str:
    """Pin a memory, or unpin it."""
    from engram.memories.save import pin_memory

    with access.store() as store:
        view = access.view(store, project)
        view.require(store, episode_id)
        changed = pin_memory(store, episode_id, is_pinned=is_pinned)
    access.ask({"op": "wake"})
    what = "heads every briefing and never ages" if is_pinned else "is no longer pinned"
    return f"{episode_id} {what}: {one_line(changed.summary, 200)}" + answers.tail(view.note)


def status(access: Access) -> str:
    """What there is, and whether memory works."""
    from engram.reports.health import take_vitals

    with access.store() as store:
        answer = access.ask({"op": "status"}) or {}
        vitals = take_vitals(store, access.settings)
        home = access.settings.places
        lines = [
            f"worker: running, pid {answer.get('pid')}, up {_duration(answer.get('uptime_seconds'))}, "
            f"{answer.get('rss_mb')} MB"
            if answer
            else f"worker: {'it runs and does not answer' if vitals.worker.is_alive else NO_WORKER}",
            f"watcher: running, pid {vitals.watcher.pid}" if vitals.watcher.is_alive else f"watcher: {NO_WATCHER}",
            *(
                f"{trouble.about}: {one_line(_without_transcripts(access, trouble.text), 200)}"
                for trouble in vitals.troubles()
                if trouble.about not in ("worker", "watcher")
            ),
            f"socket: {home.recall_socket} ({'answers' if answer else 'no answer'})",
            f"schema: {store.schema_version()}",
            *_episode_lines(store, access.view(store)),
            "notes: {} files, {} chunks".format(*notes.count_notes(store)),
            f"recollections waiting: {sum(1 for _ in home.recollections.glob('*.pending'))}",
            f"path: {home.root}",
        ]
        return "\n".join(lines)


def _episode_lines(store: Store, view: View) -> list[str]:
    """How many memories there are: those that may be seen here in detail, of the others only their number."""
    seen, elsewhere = episodes.count_episodes(store, view.project_id)
    name = shown_name(view.project.name) if view.project else "none is known for this folder"
    return [
        f"project: {name}",
        f"episodes: {sum(number for *_, number in seen)}",
        *(f"- {scope}, {importance}, {state}: {number}" for scope, importance, state, number in seen),
        f"episodes of other projects, not seen here: {elsewhere}",
    ]


def _without_transcripts(access: Access, text: str) -> str:
    """A cause without the folders of transcripts: each is named after a project."""
    folder = access.settings.projects_folder
    return re.sub(rf"{re.escape(str(folder))}/[^\n/'\"]+", f"{folder}/…", text)


def _duration(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "?"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def timeline(access: Access, around: str | None, project: str | None, limit: int) -> str:
    """Memories around a memory or a date, or the latest ones, the oldest first."""
    count = max(1, min(limit, LIMIT * 2))
    with access.store() as store:
        view = access.view(store, project)
        if around is None:
            memories = episodes.latest_episodes(store, project_id=view.project_id, limit=count)[::-1]
        else:
            at_ms = _moment(store, view, around)
            memories = episodes.episodes_around(store, at_ms, project_id=view.project_id, limit=count)
        return answers.timeline_lines(memories, view.project_id) + answers.tail(view.note)


def _moment(store: Store, view: View, around: str) -> int:
    """When a memory was made, or the time that a date names. Raises NotFound or BadRequest."""
    if episodes.is_episode_id(around):
        return view.require(store, around).created_at_ms
    at_ms = parse_time_ms(around)
    if at_ms is None:
        raise BadRequest(
            f"around {around[:40]!r} is neither a memory's id nor a date such as {iso_time(store.now_ms())[:10]}"
        )
    return at_ms


def context(access: Access, project: str | None) -> str:
    """The briefing of a project; one line where this session has had it."""
    from engram.recollection.briefing import build_briefing, told_in

    with access.store() as store:
        view = access.view(store, project)
        if (
            access.session_id
            and not project
            and ("briefing" in {s[0] for s in injections.shown_of_session(store, access.session_id)})
        ):
            return "This session has had its briefing; memory_recall finds more."
        began_ms = contexts.context_start_ms(store, access.session_id)
        own = contexts.episodes_in_context(store, access.session_id, began_ms) if access.session_id else set()
        project_id = view.project.id if view.project else None
        text = build_briefing(store, access.settings, project_id=project_id, without=own, with_report=False)
        if access.session_id and text and not project:
            injected = injections.told_at_start(access.session_id, told_in(text), store.now_ms())
            with store.transaction() as tx:
                injections.note_shown(store, access.session_id, "briefing", len(text) // 4)
                injections.add_injections(tx, injected)
        return (text or "Nothing is kept for this project yet.") + answers.tail(view.note)
