"""The tools as plain functions: an ``Access`` and arguments in, text out.

An ``Access`` opens the memory and the settings, and knows the project of Claude's folder. Imports for a single tool are
inside its function, to keep the server's first answer fast.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from engram import settings as settings_module
from engram.enums import Actor, Importance, Judgement, Kind, Scope
from engram.errors import BadRequest, NotFound, StoreError
from engram.ingest.session_project import scope_of_folder, vault_of
from engram.log import start_logging
from engram.models.engine.database import is_replaced
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_history, memory_records
from engram.models.memories.branches import unmerged_branch
from engram.models.memories.judgements import Usefulness, mark_used, open_contradictions, usefulness_of
from engram.models.memories.memory_history import TAKE_BACK
from engram.models.memories.memory_records import Memory, find_memory, is_memory_id, may_see
from engram.models.open_memory import open_memory
from engram.models.projects import notes
from engram.models.projects.projects import NO_PROJECT, ProjectRow, find_project
from engram.models.search import memory_lists
from engram.models.sessions import sessions
from engram.models.sessions.passage_rows import Quotation, find_quotation, is_quotation_id, places_of
from engram.models.sessions.sessions import known_values
from engram.models.shown import injections
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import iso_time, parse_time_ms
from engram.transcripts.git_files import read_branch
from engram.trust.display import fence_safe, one_line
from engram.vaults import settings_of, with_flags
from engram.worker.recall_client import AnsweredBy, Operation, RecallRequest, RecallResponse, ask_memory, require_words
from engram.worker.worker_client import ask_status, wake_worker
from engram_mcp import answers


@dataclass(frozen=True, slots=True)
class View:
    """What a call may see: one project's memories and global ones, or only the latter."""

    #: None if Claude's folder does not belong to a known project.
    project: ProjectRow | None
    #: True if the caller specified a project other than the one of Claude's folder.
    is_elsewhere: bool = False

    @property
    def project_id(self) -> int:
        """Row id of the project, or an id that no project has."""
        return NO_PROJECT if self.project is None else self.project.id

    @property
    def note(self) -> str:
        """Remark about the view, for the answer; "" for the folder's own project."""
        if self.project is None:
            return "no project is known for this folder: global memories only"
        return f"of project {shown_name(self.project.name)}, not of this folder's project" if self.is_elsewhere else ""

    def is_own(self, memory: Memory) -> bool:
        """Return True if a memory was made in this project or in none."""
        return memory.project_id in (None, self.project_id)

    def require_quotation(self, store: Store, quotation_id: str) -> Quotation:
        """Return the quotation with the given id. Raises NotFound if it does not come from this view's project."""
        quotation = find_quotation(store, quotation_id)
        if quotation is None or quotation.stored.project_id != self.project_id:
            raise NotFound(
                f"there is no quotation {quotation_id[:40]!r} here; project= gives access to another project's"
            )
        return quotation

    def require(self, store: Store, episode_id: str) -> Memory:
        """Return the memory with the given id, if this view may see it.

        Raises:
            BadRequest: the id belongs to a quotation.
            NotFound: the memory does not exist, or belongs to another project; the message does not say which.
        """
        if is_quotation_id(episode_id):
            from engram.memories.save import QUOTATION_VERBS  # takes 0.1 s, and most sessions do not need it

            raise BadRequest(f"{episode_id} is a quotation: what was said can't be changed. {QUOTATION_VERBS}")
        memory = find_memory(store, episode_id) if is_memory_id(episode_id) else None
        if memory is None or not may_see(memory, self.project_id):
            raise NotFound(
                f"there is no memory {episode_id[:40]!r} here. memory_recall and memory_timeline print ids; "
                "project= gives access to another project's"
            )
        return memory


@dataclass(frozen=True, slots=True)
class Access:
    """A session's access to the memory. Each call opens and closes its own connection in its own thread."""

    settings: Settings
    #: The folder in which Claude Code started the server.
    folder: str
    #: Id of Claude Code's session; "" if unknown.
    session_id: str = ""
    #: The caller: the agent, or the user through a command.
    actor: Actor = Actor.AGENT

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """Yield the open memory for one call. Raises StoreError if there is none yet, or it can't be opened."""
        path = self.settings.places.memory_db
        if not path.parent.is_dir() or not (path.exists() or is_replaced(path)):
            raise StoreError(
                f"there is no memory at {path} yet. Tell the user to run `engram up`, and continue without memory"
            )
        with open_memory(path, driver=self.settings.sqlite_driver, is_made=False) as store:
            yield store

    def redact(self, store: Store, text: str) -> str:
        """Mask secrets, including those in this session's ``.env`` lines."""
        return redact(text, known_values(store, self.session_id) if self.session_id else ())

    def ask(self, store: Store, request: RecallRequest) -> RecallResponse:
        """Answer a question from the memory: through the worker or, if none answers, by text search only."""
        return ask_memory(store, self.settings, request, with_model=False)

    def wake_worker(self) -> None:
        wake_worker(self.settings.places)

    def as_typed(self, text: str) -> str:
        """Return one of Engram's own messages with its commands as the user types them for this memory."""
        return with_flags(text, self.settings.places)

    def view(self, store: Store, name: str | None = None) -> View:
        """Return the view of a project (default: the project of Claude's folder) and of global memories.

        Raises NotFound if there is no such project; the message does not list other projects.
        """
        own = scope_of_folder(store, self.settings, self.folder).project
        if not name:
            return View(own)
        named = find_project(store, name)
        if named is None:
            raise NotFound(
                f"there is no project {name[:60]!r}. Ask the user for its name (`engram status --json` lists them)"
            )
        return View(named, is_elsewhere=own is None or own.id != named.id)


def shown_name(name: str) -> str:
    """Return a project's name in a form that is safe to print."""
    return fence_safe(one_line(name, 60))


def open_access() -> Access:
    """Create the access for a server that runs in its own process, with its own log. Raises EngramError."""
    access = access_for(os.environ)
    start_logging(access.settings.places.logs, "mcp", access.settings.log_level, redact)
    return access


def access_for(environ: Mapping[str, str], *, home: Path | None = None) -> Access:
    """Create a session's access.

    Args:
        environ: its process's environment variables, as completed by ``engram_mcp.server``.
        home: the memory folder, if the variables do not specify it.

    Raises:
        EngramError: a setting or a vault can't be read.
    """
    folder = environ.get("CLAUDE_PROJECT_DIR", "")
    settings = settings_module.load({"home": home}, environ).settings
    vault = vault_of(settings, folder)
    if vault is not None:
        settings = settings_of(vault, settings)
    return Access(settings, folder, environ.get("CLAUDE_CODE_SESSION_ID", ""))


# -- The tools.

#: Maximum number of hits that a tool returns.
MAX_HITS: Final = 25
#: Default number of hits from ``memory_search``, and of memories from ``memory_recall``. By default, the passages from
#: ``memory_recall`` are limited by a word budget; any other limit applies to memories and passages together.
DEFAULT_HITS: Final = 5
#: Note in answers if no worker is running.
NO_WORKER = "the worker is not running: text search only; `engram up` starts it"
#: Text of ``memory_status`` if no watcher is running.
NO_WATCHER = "not running, so new messages are not recorded; `engram up` starts it"


def recall(access: Access, query: str, limit: int, project: str | None) -> str:
    """Return ranked memories for a question."""
    found, view, notes = _find(access, Operation.RECALL, query, limit, project)
    return answers.recall_lines(found.hits, notes, view.project.name if view.project else "", access.session_id)


def search(access: Access, query: str, limit: int, project: str | None) -> str:
    """Return verbatim turns and notes for a question."""
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
            limit=max(1, min(limit, MAX_HITS)),
            project_id=view.project_id,
            branch=read_branch(access.folder),
            max_hits=None if limit == DEFAULT_HITS else max(1, limit),
        )
        response = access.ask(store, request)
        no_worker = "" if response.answered_by is AnsweredBy.WORKER else NO_WORKER
        state = "; ".join(part for part in (view.note, no_worker) if part)
        return response, view, [access.as_typed(note) for note in (answers.held_back_note(response.hits), state)]


def expand(access: Access, episode_id: str, project: str | None = None) -> str:
    """Return everything known about a memory, or a quotation's whole turn. Counts as an access."""
    with access.store() as store:
        view = access.view(store, project)
        if is_quotation_id(episode_id):
            return _expand_quotation(access, store, view, episode_id) + answers.tail(view.note)
        memory = view.require(store, episode_id)
        memory_changes.note_access(store, episode_id, session_id=access.session_id)
        related = memory_lists.related_memories(store, memory, view.project_id)
        if not memory_records.may_see_context(memory, view.project_id):
            return answers.foreign_text(memory, related) + answers.tail(view.note)
        history = memory_history.history_of(store, episode_id)
        uses = usefulness_of(store, [episode_id]).get(episode_id, Usefulness())
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


def get(access: Access, source: str, start: int | None, lines: int | None, project: str | None = None) -> str:
    """Return lines of a note that ``search`` found, leaving out other projects' lines."""
    from engram.notes.note_index import read_lines

    with access.store() as store:
        view = access.view(store, project)
        text = read_lines(
            store, access.settings, partial(access.redact, store), source, start, lines, project_id=view.project_id
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
    question: str | None = None,
) -> str:
    """Save a text as a memory, or in the day's note."""
    from engram.memories.save import save_memory

    folder = cwd or access.folder
    if scope == "note":
        with access.store() as store:
            place = scope_of_folder(store, access.settings, folder, make=True)
            return _save_note(access, store, content, place.project)
    # Use one transaction, so that refused text does not leave a new project behind.
    with access.store() as store, store.transaction():
        place = scope_of_folder(store, access.settings, folder, make=scope != Scope.GLOBAL)
        is_global = Scope.parse(scope) is Scope.GLOBAL or place.project is None
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
            is_pinned=is_pinned,
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


def _save_note(access: Access, store: Store, content: str, project: ProjectRow | None) -> str:
    from engram.notes.daily_log import save_note
    from engram.notes.note_index import index_notes

    redact = partial(access.redact, store)
    path = save_note(access.settings.places, content, redact, store.now_ms(), project.name if project else "")
    index_notes(store, access.settings, redact)
    source = path.relative_to(access.settings.places.notes).as_posix()
    if project is None:
        return access.as_typed(
            f"Saved in the note {source}. This folder is not a project, so only the user's `engram search` finds it."
        )
    return f"Saved in the note {source} for project {shown_name(project.name)}. memory_search and memory_get find it."


def forget(access: Access, episode_id: str, is_source_forgotten: bool = False, project: str | None = None) -> str:
    """Delete a memory with the text that no other memory rests on, a quoted message, or whole turns, everywhere."""
    from engram.forgetting.forget import forget_memory

    with access.store() as store:
        view = access.view(store, project)
        if is_quotation_id(episode_id):
            view.require_quotation(store, episode_id)
        elif not view.is_own(view.require(store, episode_id)) and is_source_forgotten:
            raise BadRequest(
                "it comes from another project, so its turns can't be deleted here. Forget it without also_source, "
                "or name that project with project= if the user wants its turns deleted"
            )
        report = forget_memory(
            store, access.settings.places, episode_id, also_source=is_source_forgotten, actor=Actor.AGENT
        )
        said = report.describe(lambda memory: memory_records.may_see(memory, view.project_id))
    access.wake_worker()
    return f"Deleted for good: {fence_safe(said, keep_lines=True)}" + answers.tail(view.note)


def correct(access: Access, episode_id: str, text: str, why: str, project: str | None = None) -> str:
    """Replace a memory's text. If the user pinned, saved, said or chose it, the decision is left to them."""
    from engram.memories.correct import correct_memory

    with access.store() as store:
        view = access.view(store, project)
        view.require(store, episode_id)
        done = correct_memory(
            store, episode_id, text, why, partial(access.redact, store), session_id=access.session_id, actor=Actor.AGENT
        )
    access.wake_worker()
    if done.contradiction:
        said = f"Kept — ID: {done.made.episode_id}.{answers.contradiction_line(episode_id, done.made.episode_id)}"
    else:
        said = f"Corrected — ID: {done.made.episode_id}. It replaces {episode_id}."
    return access.as_typed(said + answers.suspect_line(done.made)) + answers.tail(view.note)


def feedback(access: Access, episode_id: str, verdict: str, why: str, project: str | None = None) -> str:
    """Judge a memory or a quotation as helpful, wrong or outdated, or withdraw the last judgement."""
    from engram.forgetting.forget_files import withdraw_bites
    from engram.memories import correct

    with access.store() as store:
        view = access.view(store, project)
        is_quotation = is_quotation_id(episode_id)
        if is_quotation:
            view.require_quotation(store, episode_id)
        else:
            view.require(store, episode_id)
        if verdict == TAKE_BACK:
            if is_quotation:
                what = correct.take_back_quotation_judgement(store, episode_id, actor=access.actor)
            else:
                _, what = correct.take_back_judgement(store, episode_id, actor=access.actor)
            said = f"Took back what was said about {episode_id}: {what}."
        else:
            judgement = Judgement.parse(verdict)
            judge = correct.judge_quotation if is_quotation else correct.judge_memory
            judge(store, episode_id, judgement, why, partial(access.redact, store), actor=access.actor)
            if is_quotation:
                withdraw_bites(access.settings.places, episode_id)
            said = answers.judged_text(episode_id, judgement, is_users=access.actor is Actor.USER)
    access.wake_worker()
    return access.as_typed(said) + answers.tail(view.note)


def pin(access: Access, episode_id: str, is_pinned: bool = True, project: str | None = None) -> str:
    from engram.memories.save import pin_memory

    with access.store() as store:
        view = access.view(store, project)
        view.require(store, episode_id)
        changed = pin_memory(store, episode_id, is_pinned=is_pinned, actor=access.actor)
    access.wake_worker()
    what = "is pinned (it never ages, and every briefing begins with it)" if is_pinned else "is no longer pinned"
    return f"{episode_id} {what}: {one_line(changed.summary, 200)}" + answers.tail(view.note)


def status(access: Access) -> str:
    from engram.reports.health import take_vitals

    with access.store() as store:
        worker = ask_status(access.settings.places)
        vitals = take_vitals(store, access.settings)
        home = access.settings.places
        state = [
            f"worker: running, pid {worker.pid}, up {_duration(worker.uptime_seconds)}, {worker.rss_mb} MB"
            if worker
            else f"worker: {'running, but it does not answer' if vitals.worker.is_alive else NO_WORKER}",
            f"watcher: running, pid {vitals.watcher.pid}" if vitals.watcher.is_alive else f"watcher: {NO_WATCHER}",
            *(
                f"{trouble.about}: {one_line(_without_transcripts(access, trouble.text), 200)}"
                for trouble in vitals.troubles()
                if trouble.about not in ("worker", "watcher")
            ),
        ]
        lines = [
            *map(access.as_typed, state),
            f"socket: {home.recall_socket} ({'answers' if worker else 'no answer'})",
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


def timeline(access: Access, around: str | None, project: str | None, limit: int) -> str:
    """Return memories around a memory or a date, or the latest ones, oldest first."""
    count = max(1, min(limit, MAX_HITS * 2))
    with access.store() as store:
        view = access.view(store, project)
        if around is None:
            memories = memory_lists.latest_memories(store, project_id=view.project_id, limit=count)[::-1]
        else:
            at_ms = _moment(store, view, around)
            memories = memory_lists.memories_around(store, at_ms, project_id=view.project_id, limit=count)
        return answers.timeline_lines(memories, view.project_id) + answers.tail(view.note)


def _moment(store: Store, view: View, around: str) -> int:
    """Return the creation time of a memory, or the time that a date stands for. Raises NotFound or BadRequest."""
    if memory_records.is_memory_id(around):
        return view.require(store, around).created_at_ms
    at_ms = parse_time_ms(around)
    if at_ms is None:
        raise BadRequest(
            f"around {around[:40]!r} is neither a memory's id nor a date such as {iso_time(store.now_ms())[:10]}"
        )
    return at_ms


def context(access: Access, project: str | None) -> str:
    """Return a project's briefing, or one line if this session has already received it."""
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
