"""The tools: functions that take an ``Access`` and the agent's arguments, and return text.

The model sees a tool's docstring and its parameters except the first (``catalog.py``). Imports for a single tool are
inside its function, to keep the server's first answer fast.
"""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import Field

from engram.enums import Actor, Importance, Judgement, Kind, Scope
from engram.errors import BadRequest
from engram.ingest.session_project import FolderScope, scope_of_folder
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_history, memory_records
from engram.models.memories.branches import unmerged_branch
from engram.models.memories.judgements import Usefulness, mark_used, open_contradictions, usefulness_of
from engram.models.memories.memory_history import TAKE_BACK
from engram.models.projects import notes
from engram.models.projects.projects import ProjectRow
from engram.models.search import memory_lists
from engram.models.sessions import sessions
from engram.models.sessions.passage_rows import is_quotation_id, places_of
from engram.models.shown import injections
from engram.system.clock import day_of, noon_of, parse_time_ms
from engram.transcripts.git_files import read_branch
from engram.trust.display import fence_safe, one_line
from engram.vaults import settings_around
from engram.worker.recall_client import AnsweredBy, Operation, RecallRequest, RecallResponse, require_words
from engram.worker.worker_client import ask_status
from engram_mcp import answers
from engram_mcp.access import Access, View, shown_name

#: Maximum number of hits that a tool returns.
MAX_HITS: Final = 25
#: Default number of hits from ``memory_search``, and of memories from ``memory_recall``. By default, the passages from
#: ``memory_recall`` are limited by a word budget; any other limit applies to memories and passages together.
DEFAULT_HITS: Final = 5
Limit = Annotated[int, Field(ge=1, le=MAX_HITS)]
Project = Annotated[str | None, Field(description="project name; default: this one")]
#: Note in answers if no worker is running; text of ``memory_status`` if no watcher is. ``start_command`` follows.
NO_WORKER = "the worker is not running: text search only; `{}` starts it"
NO_WATCHER = "not running, so new messages are not recorded; `{}` starts it"


def recall(access: Access, query: str, limit: Limit = DEFAULT_HITS, project: Project = None) -> str:
    """Memories of earlier sessions (decisions, fixes, preferences, facts) that answer a question, best first."""
    found, view, notes = _find(access, Operation.RECALL, query, limit, project)
    return answers.recall_lines(found.hits, notes, view.project.name if view.project else "", access.session_id)


def search(access: Access, query: str, limit: Limit = DEFAULT_HITS, project: Project = None) -> str:
    """Verbatim passages of earlier turns, and of the user's notes."""
    found, _, notes = _find(access, Operation.SEARCH, query, limit, project)
    return answers.search_lines(found.hits, notes, found.not_found, access.session_id)


def _find(
    access: Access, operation: Operation, query: str, limit: int, project: str | None
) -> tuple[RecallResponse, View, list[str]]:
    """Return the response, the view searched, and notes about both. Without a worker, only text is searched."""
    require_words(query)
    with access.store() as store:
        view = access.view(store, project)
        request = RecallRequest(
            operation=operation,
            text=query,
            limit=limit,
            project_id=view.project_id,
            branch=read_branch(access.folder),
            max_hits=None if limit == DEFAULT_HITS else limit,
        )
        response = access.ask(store, request)
        no_worker = "" if response.answered_by is AnsweredBy.WORKER else NO_WORKER.format(access.start_command())
        state = "; ".join(part for part in (view.note, response.note or no_worker) if part)
        return response, view, [access.as_typed(note) for note in (answers.held_back_note(response.hits), state)]


def expand(access: Access, id: str, project: Project = None) -> str:
    """One memory in full (context, facts, evidence, its replacement), or the whole turn of a quotation (q_…)."""
    with access.store() as store:
        view = access.view(store, project)
        if is_quotation_id(id):
            return _expand_quotation(access, store, view, id) + answers.tail(view.note)
        memory = view.require(store, id)
        memory_changes.note_access(store, id, session_id=access.session_id)
        related = memory_lists.related_memories(store, memory, view.project_id)
        if not memory_records.may_see_context(memory, view.project_id):
            return answers.foreign_text(memory, related) + answers.tail(view.note)
        history = memory_history.history_of(store, id)
        uses = usefulness_of(store, [id]).get(id, Usefulness())
        if not view.is_own(memory):
            nameless = dataclasses.replace(memory, project="another project")
            return answers.expand_text(nameless, [], related, history, uses) + answers.tail(view.note)
        uuids = [entry.uuid for entry in memory_records.evidence_of(store, memory.id) if entry.uuid]
        branch = unmerged_branch(store, memory.id, read_branch(access.folder))
        return answers.expand_text(memory, places_of(store, uuids), related, history, uses, branch) + answers.tail(
            view.note
        )


def _expand_quotation(access: Access, store: Store, view: View, quotation_id: str) -> str:
    from engram.reports.memory_report import report_quotation
    from engram.transcripts.project import is_excluded

    quotation = view.require_quotation(store, quotation_id)
    if is_excluded(quotation.stored.turn.cwd, access.settings.exclude):
        raise BadRequest("the message comes from a folder that the user excluded")
    if access.session_id:
        with store.transaction() as tx:
            mark_used(tx, access.session_id, {quotation_id: store.now_ms()})
    return answers.quotation_text(report_quotation(store, quotation_id))


def get(
    access: Access, source: str, start: int | None = None, lines: int | None = None, project: Project = None
) -> str:
    """Lines of a note; source is a name that memory_search printed."""
    from engram.notes.note_index import read_lines

    with access.store() as store:
        view = access.view(store, project)
        text = read_lines(
            store, access.settings, partial(access.redact, store), source, start, lines, project_id=view.project_id
        )
        printed = fence_safe(text, keep_lines=True)
        return (f"{answers.NOTE_HEADING}\n{printed}" if printed else "(no lines there)") + answers.tail(view.note)


def save(
    access: Access,
    content: str,
    scope: Literal["project", "global", "note"],
    importance: Literal["normal", "high"],
    kind: Literal["decision", "preference", "fix", "fact", "dead-end"] | None = None,
    supersedes: Annotated[str | None, Field(description="id it replaces")] = None,
    pin: bool = False,
    cwd: str | None = None,
    question: Annotated[str | None, Field(description="what it answers, in other words")] = None,
) -> str:
    """Keep one fact: for this project, for all (global: preferences, habits), or as a line of today's note."""
    from engram.memories.save import save_memory

    folder = cwd or access.folder
    if scope == "note":
        with access.store() as store:
            place = _place_of(access, store, folder, make=True)
            return _save_note(access, store, content, place.project)
    # Use one transaction, so that refused text does not leave a new project behind.
    with access.store() as store, store.transaction():
        place = _place_of(access, store, folder, make=scope != "global")
        is_global = scope == "global" or place.project is None
        if supersedes is not None:
            access.view(store).require(store, supersedes)
        new_id = memory_records.new_memory_id()
        made = save_memory(
            store,
            content,
            partial(access.redact, store),
            scope=Scope.GLOBAL if is_global else Scope.PROJECT,
            importance=Importance.parse(importance),
            project_id=place.project.id if place.project else None,
            session_id=access.session_id,
            supersedes=supersedes,
            is_pinned=pin,
            kind=Kind.FACT if kind is None else Kind.parse(kind),
            questions=[] if question is None else [question],
            actor=Actor.AGENT,
            episode_id=new_id,
        )
        is_own = made.scope == Scope.PROJECT and place.project is not None
        where = f"project {shown_name(place.project.name)}" if is_own and place.project else "every project"
        is_open = bool(open_contradictions(store, made.episode_id))
    access.wake_worker()
    replaced = ""
    if supersedes:
        replaced = answers.contradiction_line(supersedes, made.episode_id) if is_open else f" It replaces {supersedes}."
    done = "Saved" if made.episode_id == new_id else "Already known, so nothing new was saved,"
    said = access.as_typed(f"{replaced}{answers.suspect_line(made)}")
    return f"{done} for {where} — ID: {made.episode_id}.{said}"


def _place_of(access: Access, store: Store, folder: str, *, make: bool) -> FolderScope:
    """Return the project of a folder. Raises BadRequest if nothing of it may be stored in this memory."""
    place = scope_of_folder(store, access.settings, folder, make=make)
    if place.is_elsewhere:
        raise BadRequest("the memory of this folder is kept apart from this one: save it in a session of that folder")
    if make and folder and place.project is None and not place.is_global:
        raise BadRequest(f"{folder[:60]!r} is not an absolute path: leave cwd out, or give the folder's full path")
    return place


def _save_note(access: Access, store: Store, content: str, project: ProjectRow | None) -> str:
    from engram.memories.save import check_not_forgotten
    from engram.notes.daily_log import save_note
    from engram.notes.note_index import index_notes

    redact = partial(access.redact, store)
    check_not_forgotten(store, redact(content), None if project is None else project.id)
    path = save_note(access.settings.places, content, redact, store.now_ms(), project.name if project else "")
    index_notes(store, access.settings, redact)
    source = path.relative_to(access.settings.places.notes).as_posix()
    if project is None:
        return access.as_typed(
            f"Saved in the note {source}. This folder is not a project, so only the user's `engram search` finds it."
        )
    return f"Saved in the note {source} for project {shown_name(project.name)}. memory_search and memory_get find it."


def forget(access: Access, id: str, also_source: bool = False, project: Project = None) -> str:
    """Delete a memory or quoted message for good, with the words that only it rests on; also_source: whole turns.

    Only when the user asks for it.
    """
    from engram.forgetting.forget import forget_memory

    with access.store() as store:
        view = access.view(store, project)
        if is_quotation_id(id):
            view.require_quotation(store, id)
        elif not view.is_own(view.require(store, id)) and also_source:
            raise BadRequest(
                "it comes from another project, so its turns can't be deleted here. Forget it without also_source, "
                "or name that project with project= if the user wants its turns deleted"
            )
        report = forget_memory(store, access.settings.places, id, also_source=also_source, actor=Actor.AGENT)
        said = report.describe(lambda memory: memory_records.may_see(memory, view.project_id))
    access.wake_worker()
    return f"Deleted for good: {fence_safe(said, keep_lines=True)}" + answers.tail(view.note)


def correct(access: Access, id: str, text: str, why: str, project: Project = None) -> str:
    """Replace a wrong or outdated memory with a correct text."""
    # If the user pinned, saved, said or chose it, the decision is left to them.
    from engram.memories.correct import correct_memory

    with access.store() as store:
        view = access.view(store, project)
        view.require(store, id)
        done = correct_memory(
            store, id, text, why, partial(access.redact, store), session_id=access.session_id, actor=Actor.AGENT
        )
    access.wake_worker()
    if done.contradiction:
        said = f"Kept — ID: {done.made.episode_id}.{answers.contradiction_line(id, done.made.episode_id)}"
    else:
        said = f"Corrected — ID: {done.made.episode_id}. It replaces {id}."
    return access.as_typed(said + answers.suspect_line(done.made)) + answers.tail(view.note)


def feedback(
    access: Access,
    id: str,
    verdict: Literal["helpful", "wrong", "outdated", "take back"],
    why: str,
    project: Project = None,
) -> str:
    """Say that a shown memory or quotation helped, is wrong (never shown again) or no longer holds (ends)."""
    from engram.memories import correct

    with access.store() as store:
        view = access.view(store, project)
        is_quotation = is_quotation_id(id)
        if is_quotation:
            view.require_quotation(store, id)
        else:
            view.require(store, id)
        if verdict == TAKE_BACK:
            if is_quotation:
                what = correct.take_back_quotation_judgement(store, id, actor=access.actor)
            else:
                _, what = correct.take_back_judgement(store, id, actor=access.actor)
            said = f"Took back what was said about {id}: {what}."
        else:
            judgement = Judgement.parse(verdict)
            judge = correct.judge_quotation if is_quotation else correct.judge_memory
            judge(store, id, judgement, why, partial(access.redact, store), actor=access.actor)
            said = answers.judged_text(id, judgement, is_users=access.actor is Actor.USER)
    access.wake_worker()
    return access.as_typed(said) + answers.tail(view.note)


def pin(access: Access, id: str, on: bool = True, project: Project = None) -> str:
    """Pin a memory, so that every briefing begins with it, or unpin it. Only when the user asks for it."""
    from engram.memories.save import pin_memory

    with access.store() as store:
        view = access.view(store, project)
        view.require(store, id)
        changed = pin_memory(store, id, is_pinned=on, actor=access.actor)
    access.wake_worker()
    what = "is pinned (it never ages, and every briefing begins with it)" if on else "is no longer pinned"
    return f"{id} {what}: {one_line(changed.summary, 200)}" + answers.tail(view.note)


def status(access: Access) -> str:
    """Whether memory works, what is kept, and where."""
    from engram.reports.health import take_vitals

    with access.store() as store:
        worker = ask_status(access.settings.places)
        vitals = take_vitals(store, access.settings)
        no_worker, no_watcher = (text.format(vitals.start_command) for text in (NO_WORKER, NO_WATCHER))
        home = access.settings.places
        state = [
            f"worker: running, pid {worker.pid}, up {_duration(worker.uptime_seconds)}, {worker.rss_mb} MB"
            if worker
            else f"worker: {'running, but it does not answer' if vitals.worker.is_alive else no_worker}",
            f"watcher: running, pid {vitals.watcher.pid}" if vitals.watcher.is_alive else f"watcher: {no_watcher}",
            *(
                f"{trouble.about}: {one_line(_without_transcripts(access, trouble.text), 200)}"
                for trouble in vitals.troubles()
                if trouble.about not in ("worker", "watcher")
            ),
        ]
        lines = [
            *map(access.as_typed, state),
            f"socket: {settings_around(access.settings).places.recall_socket} ({'answers' if worker else 'no answer'})",
            f"schema: {store.schema_version()}",
            *_memory_lines(store, access.view(store)),
            "notes: {} files, {} chunks".format(*notes.count_notes(store)),
            f"recollections waiting: {sum(1 for _ in home.recollections.glob('*.pending'))}",
            f"path: {home.root}",
        ]
        return "\n".join(lines)


def _memory_lines(store: Store, view: View) -> list[str]:
    """Return memory counts: by scope, importance and status for visible memories, and a total for the others."""
    seen, elsewhere = memory_lists.count_memories(store, view.project_id)
    name = shown_name(view.project.name) if view.project else "none, this folder belongs to no known project"
    return [
        f"project: {name}",
        f"memories: {sum(count.number for count in seen)}",
        *(f"- {count.scope}, {count.importance}, {count.status}: {count.number}" for count in seen),
        f"memories of other projects, not visible here: {elsewhere}",
    ]


def _without_transcripts(access: Access, text: str) -> str:
    """Return an error message without the names of transcript folders, which contain project names."""
    folder = access.settings.projects_folder
    return re.sub(rf"{re.escape(str(folder))}/[^\n/'\"]+", f"{folder}/…", text)


def _duration(seconds: float) -> str:
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def timeline(
    access: Access,
    around: Annotated[str | None, Field(description="a memory's id or a date")] = None,
    project: Project = None,
    limit: Annotated[int, Field(ge=1, le=2 * MAX_HITS)] = 10,
) -> str:
    """Memories by time: the latest ones, or those around an id or date."""
    with access.store() as store:
        view = access.view(store, project)
        if around is None:
            memories = memory_lists.latest_memories(store, project_id=view.project_id, limit=limit)[::-1]
        else:
            at_ms = _moment(store, view, around)
            memories = memory_lists.memories_around(store, at_ms, project_id=view.project_id, limit=limit)
        return answers.timeline_lines(memories, view.project_id) + answers.tail(view.note)


def _moment(store: Store, view: View, around: str) -> int:
    """Return the creation time of a memory, or a time in the local zone; a day stands for its noon.

    Raises NotFound or BadRequest.
    """
    if memory_records.is_memory_id(around):
        return view.require(store, around).created_at_ms
    at_ms = noon_of(around) or parse_time_ms(around, None)
    if at_ms is None:
        raise BadRequest(f"around {around[:40]!r} is neither a memory's id nor a date such as {day_of(store.now_ms())}")
    return at_ms


def context(access: Access, project: Project = None) -> str:
    """The briefing on a project: pinned and recent memories."""
    from engram.recollection.branch_state import find_branch_state
    from engram.recollection.briefing_lines import ids_in_briefing
    from engram.recollection.session_briefing import build_briefing

    with access.store() as store:
        view = access.view(store, project)
        if (
            access.session_id
            and not project
            and ("briefing" in {s[0] for s in injections.shown_of_session(store, access.session_id)})
        ):
            return "This session already had its briefing. memory_recall finds more."
        project_id = view.project.id if view.project else None
        # Wait 0 seconds, because git runs only in the worker.
        where = (
            None
            if project
            else find_branch_state(store, project_id, access.folder, git_seconds=0, but_session=access.session_id)
        )

        def in_context() -> set[str]:
            began_ms = sessions.context_start_ms(store, access.session_id)
            return sessions.memories_in_context(store, access.session_id, began_ms) if access.session_id else set()

        text = build_briefing(store, access.settings, project_id=project_id, in_context=in_context, where=where)
        if access.session_id and text and not project:
            injected = injections.briefing_injections(access.session_id, ids_in_briefing(text), store.now_ms())
            with store.transaction() as tx:
                injections.note_shown(store, access.session_id, "briefing", len(text) // 4)
                injections.add_injections(tx, injected)
        return (text or "No memories of this project yet.") + answers.tail(view.note)
