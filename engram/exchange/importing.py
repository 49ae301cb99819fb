"""Import memories from a file: redact them, skip known and forgotten ones, and record a run that can be undone."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from engram.enums import Actor, Scope, Status, Voice
from engram.errors import BadRequest, NotFound
from engram.exchange.exchange_records import (
    MAX_FOREIGN_CONTENT,
    Incoming,
    IncomingMemory,
    IncomingTombstones,
    Place,
    Unusable,
    bounded,
    copies_of_known,
    id_of_foreign,
    is_proven,
    named_as_here,
    said_by_others,
    with_project_ids,
    working_folder,
)
from engram.exchange.exchange_records import Source as FileSource
from engram.ingest.project_moves import NAME_ONLY
from engram.ingest.session_project import identify_folder, project_for
from engram.models.engine.transaction import Store, Tx
from engram.models.memories import memory_changes, memory_history, memory_records
from engram.models.memories.memory_history import Change
from engram.models.memories.memory_imports import (
    carry_contradiction,
    drop_empty_projects,
    drop_empty_sessions,
    has_stable_id,
    import_memory,
    imported_by,
    why_not_removed,
)
from engram.models.memories.memory_records import Memory
from engram.models.memories.tombstones import is_text_forgotten
from engram.models.projects.project_folders import list_hints, note_hints
from engram.models.projects.projects import (
    ProjectRow,
    ensure_project,
    find_project_of_identity,
    list_projects,
    project_by_id,
    project_id_of_name,
)
from engram.models.rescue.clean_copies import carry_harmless_tombstones, is_named_by_tombstone
from engram.models.sessions import sessions
from engram.models.sessions.sessions import find_session
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK
from engram.text.titles import clean_questions, clean_title
from engram.transcripts.claude_code import AGENT
from engram.transcripts.project import Project
from engram.trust.display import number_of
from engram.trust.suspicion import why_any_suspect

# -- Find the project of an imported memory by its folder, its session, or its display name.

#: A function that changes the beginning of a path, for files from a machine with other folders.
MapFolder = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """The project that an imported memory gets."""

    #: Display name; "" if there is no project.
    name: str
    #: None if there is no project or, in a dry run, if it would be created.
    project: ProjectRow | None = None
    is_new: bool = False


class PlaceFinder:
    def __init__(
        self, store: Store, settings: Settings, *, into: ProjectRow | None = None, map_folder: MapFolder = str
    ) -> None:
        """Make a finder for one import.

        Args:
            into: the project for memories without a project; None to leave them without one.
            map_folder: changes the paths of folders in the file.
        """
        self._store = store
        self._settings = settings
        self._into = into
        self._map_folder = map_folder
        self._transcripts: dict[str, Path] | None = None
        self._of_session: dict[str, Project | None] = {}
        self._others: dict[tuple[int, str, str], bool] = {}

    def find(self, memory: IncomingMemory, tx: Tx | None = None) -> FoundPlace:
        """Return the project in which to store a memory; with a transaction, create it if it is unknown."""
        known, wanted = self._look_up(memory)
        if known is not None or wanted is None:
            return FoundPlace("" if known is None else known.name, known)
        if tx is None:
            return FoundPlace(wanted.name, is_new=bool(wanted.name))
        made = ensure_project(tx, wanted.identity, wanted.name, wanted.root)
        if memory.place is not None and (memory.place.remote or memory.place.first_commit):
            note_hints(tx, made.id, memory.place.remote, memory.place.first_commit)
        return FoundPlace(made.name, made, is_new=True)

    def _look_up(self, memory: IncomingMemory) -> tuple[ProjectRow | None, Project | None]:
        """Return the existing project of a memory, and the facts about the project to create if there is none."""
        place = memory.place
        if memory.memory.scope is Scope.GLOBAL and place is None:
            return None, None
        if place is None:
            project = self._project_of_session(memory.memory.session_id)
            return (self._into, None) if project is None else self._with_row(project)
        if place.identity:
            identity, root = self._map_folder(place.identity), self._map_folder(place.root)
            known = find_project_of_identity(self._store, identity)
            if known is not None and self._holds_another(known, place):
                # Two machines may have different repositories in one path.
                identity, root = f"{NAME_ONLY}{place.remote or place.first_commit}/{place.name}", ""
            return self._with_row(Project(identity, root, place.name))
        wanted = self._project_of_session(memory.memory.session_id)
        if wanted is not None:
            return self._with_row(wanted)
        for name in filter(None, (place.name, place.worktree_of)):
            wanted = self._folder_of_name(name)
            known = self._known_by_name(name) if wanted is None else None
            if wanted is not None or known is not None:
                return (known, None) if wanted is None else self._with_row(wanted)
        return None, Project(f"{NAME_ONLY}{place.name}", "", PurePath(place.name).name)

    def _holds_another(self, known: ProjectRow, place: Place) -> bool:
        """Return True if a project is of another repository than the one in the file, as far as both are known."""
        asked = (known.id, place.remote, place.first_commit)
        if asked not in self._others:
            own = next(hints for hints in list_hints(self._store) if hints.project.id == known.id)
            name = "first_commit" if own.first_commit and place.first_commit else "remote"
            hints = {getattr(own, name), getattr(place, name)} - {""}
            self._others[asked] = len(hints) > 1
        return self._others[asked]

    def _with_row(self, project: Project) -> tuple[ProjectRow | None, Project]:
        return find_project_of_identity(self._store, project.identity), project

    def _project_of_session(self, session_id: str) -> Project | None:
        """Return the project of a session, as stored or according to the working folder in its transcript."""
        if not session_id:
            return None
        if session_id not in self._of_session:
            self._of_session[session_id] = self._find_project_of_session(session_id)
        return self._of_session[session_id]

    def _find_project_of_session(self, session_id: str) -> Project | None:
        session = find_session(self._store, session_id)
        if session is not None and session.project_id is not None:
            row = project_by_id(self._store, session.project_id)
            return None if row is None else Project(row.identity, row.root, row.name)
        if self._transcripts is None:
            folders = [folder / "projects" for folder in self._settings.all_claude_folders]
            self._transcripts = {path.stem: path for folder in folders for path in folder.glob("*/*.jsonl")}
        path = self._transcripts.get(session_id)
        cwd = "" if path is None else working_folder(path)
        project = project_for(self._store, cwd, self._settings) if cwd else None
        return project if project is not None and project.identity and not project.is_global else None

    def _folder_of_name(self, name: str) -> Project | None:
        """Return the project of the folder with this name in the project roots, if there is exactly one such folder."""
        folders = [Path(os.path.expanduser(root)) / name for root in self._settings.project_roots]
        found = {
            project.identity: project
            for folder in folders
            if os.path.isdir(folder) and not (project := identify_folder(str(folder), self._settings)).is_global
        }
        return next(iter(found.values())) if len(found) == 1 else None

    def _known_by_name(self, name: str) -> ProjectRow | None:
        """Return the only project with a folder that ends with a name, or the project with that name."""
        ending = tuple(part.casefold() for part in PurePath(name).parts)
        fitting = [
            project
            for project in list_projects(self._store)
            if ending and tuple(part.casefold() for part in PurePath(project.root).parts)[-len(ending) :] == ending
        ]
        if len(fitting) == 1:
            return fitting[0]
        # If there are several such folders, it is unclear which one is meant, and a project must not see another's
        # memories.
        project_id = None if fitting else project_id_of_name(self._store, name)
        if project_id is not None:
            return project_by_id(self._store, project_id)
        return find_project_of_identity(self._store, f"{NAME_ONLY}{name}")


#: Number of memories that are added in one transaction; small, so that other writers don't have to wait long.
BATCH = 50
#: Time fields. In a memory from someone else, none of them may be in the future.
_TIMES = ("created_at_ms", "kept_at_ms", "valid_from_ms", "accessed_at_ms")
#: Maximum number of unusable parts that a report lists.
MAX_PROBLEMS = 50

Redact = Callable[[str], str]


class Outcome(StrEnum):
    ADDED = "added"
    #: It is already stored, and is left unchanged.
    KNOWN = "known"
    #: It was forgotten, and remains forgotten.
    FORGOTTEN = "forgotten"
    #: It can't become a memory.
    BAD = "bad"


@dataclass(slots=True)
class ImportReport:
    format: str
    name: str
    is_dry: bool
    #: Number of the run; None in a dry run, or if nothing was added.
    run_id: int | None = None
    counts: Counter[Outcome] = field(default_factory=Counter)
    #: Display name of a project → number of memories added to it; "" for those without a project.
    projects: Counter[str] = field(default_factory=Counter)
    #: Names of new projects.
    new_projects: list[str] = field(default_factory=list)
    #: Number of added memories that read like orders, so they are not injected until the user has decided.
    suspects: int = 0
    #: Number of tombstones that were added.
    tombstones: int = 0
    problems: list[Unusable] = field(default_factory=list)
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            **{outcome.value: self.counts[outcome] for outcome in Outcome},
            "run": self.run_id,
            "dry": self.is_dry,
            "format": self.format,
            "source": self.name,
            "projects": dict(self.projects),
            "new_projects": self.new_projects,
            "suspects": self.suspects,
            "tombstones": self.tombstones,
            "problems": [dataclasses.asdict(problem) for problem in self.problems],
            "remarks": list(self.remarks),
        }


def import_memories(
    store: Store,
    source: FileSource,
    redact: Redact,
    places: PlaceFinder,
    *,
    is_dry: bool = False,
    is_mine: bool = False,
    is_global: bool = False,
) -> ImportReport:
    """Add the memories of a file or folder.

    Existing memories are not changed, and forgotten ones are not restored. The file's tombstones are added unless they
    match something that is stored, because an import never deletes anything. If the process is killed, the same import
    can be repeated to add the rest.

    Only memories that this database exported, or that the user declares to be their own, keep their voice. All others
    count as someone else's: they get the voice ``Voice.IMPORTED``, are not pinned, are checked for planted
    instructions, and apply only in their project. Their history and contradictions are not imported, nor is what the
    file claims about their author, confidence, importance and use.

    Args:
        is_mine: the user made this export from another memory of their own.
        is_global: memories that are global in the file become global here too, unless they are suspect.

    Raises:
        BadRequest: the file doesn't have this format.
        StoreError: the database can't be written.
    """
    report = ImportReport(source.format, source.name, is_dry, remarks=source.remarks)
    importer = _Importer(store, redact, places, report, is_mine, is_global)
    while batch := list(islice(source.items, BATCH)):
        importer.take(batch, is_dry=is_dry)
    if not is_dry:
        importer.finish()
    return report


@dataclass(slots=True)
class _Importer:
    _store: Store
    _redact: Redact
    _places: PlaceFinder
    _report: ImportReport
    _is_mine: bool
    _is_global: bool
    _seen: set[str] = field(default_factory=set)
    _copies: Mapping[str, str] | None = None
    _new_project_ids: list[int] = field(default_factory=list)
    _contradictions: list[Any] = field(default_factory=list)

    def take(self, batch: Iterable[Incoming], *, is_dry: bool) -> None:
        """Add a batch from the file in one transaction, or only count the outcomes that this would have."""
        cleaned = [
            (item, self._clean(self._as_received(item)) if isinstance(item, IncomingMemory) else item)
            for item in map(self._named_as_here, batch)
            if not self._is_known(item)
        ]
        with contextlib.nullcontext() if is_dry else self._store.transaction() as tx:
            for told, item in cleaned:
                if isinstance(item, Unusable):
                    self._note_problem(item)
                elif isinstance(item, IncomingMemory):
                    assert isinstance(told, IncomingMemory)
                    self._take_memory(tx, item, told)
                elif not self._is_own(item):
                    self._report.remarks += (_not_forgotten_here(len(item.tombstones)),)
                elif tx is not None:
                    self._report.tombstones += carry_harmless_tombstones(tx, item.tombstones)

    def _named_as_here(self, item: Incoming) -> Incoming:
        if not isinstance(item, IncomingMemory) or item.record is None or is_proven(self._store, item.record):
            return item
        self._copies = self._copies or copies_of_known(self._store)
        return named_as_here(item, self._copies)

    def _is_known(self, item: Incoming) -> bool:
        """Return True, and count it, if a memory is stored under its own id. Redacting it again would take long."""
        if not isinstance(item, IncomingMemory):
            return False
        kept_as = item.memory.episode_id
        if item.record is not None and not self._is_own(item):
            kept_as = id_of_foreign(kept_as)
        if memory_records.find_memory(self._store, kept_as) is None:
            return False
        self._report.counts[Outcome.KNOWN] += 1
        return True

    def _take_memory(self, tx: Tx | None, item: IncomingMemory, told: IncomingMemory) -> None:
        outcome = self._outcome(told, item)
        self._report.counts[outcome] += 1
        if outcome is not Outcome.ADDED:
            return
        self._report.suspects += bool(item.memory.suspect)
        if tx is None:
            self._count_place(self._places.find(item))
        else:
            self._add_memory(tx, item)

    def finish(self) -> None:
        """Link the added memories, and close the run."""
        with self._store.transaction() as tx:
            for contradiction in self._contradictions:
                carry_contradiction(tx, contradiction)
            memory_changes.restore_orphans(tx, actor=Actor.USER)
            if self._report.run_id is not None:
                run = memory_history.find_run(tx, self._report.run_id, [memory_history.IMPORT_KIND])
                assert run is not None
                memory_history.update_run(tx, run, position="", report=self._facts(), state="done")

    def _outcome(self, told: IncomingMemory, item: IncomingMemory) -> Outcome:
        """Return what becomes of a memory.

        Args:
            told: as it is in the file. What it says about ids can at most keep the memory from being added.
            item: as it is to be stored.
        """
        store, memory = self._store, told.memory
        uuids = [entry.uuid for entry in told.evidence]
        names = {memory.episode_id, item.memory.episode_id}
        if told.record is not None and not self._is_own(told):
            names.add(id_of_foreign(item.memory.episode_id))  # Somebody who had imported it passed it on.
        again = {memory.slot or "", memory.stable_id} - {""}
        if names & self._seen or any(memory_records.find_memory(store, name) is not None for name in names):
            return Outcome.KNOWN
        as_foreign = "" if told.record is None else id_of_foreign(memory.episode_id)
        earlier = memory_records.find_memory(store, as_foreign)
        if earlier and (earlier.summary, earlier.content) == (item.memory.summary, item.memory.content):
            # The same words came before, when the user had not said that they are theirs.
            return Outcome.KNOWN
        gone = names if told.record is None or is_proven(store, told.record) else names | {as_foreign}
        if any(
            is_named_by_tombstone(store, name, memory.slot, uuids, memory.source, with_purged=False) for name in gone
        ):
            return Outcome.FORGOTTEN
        if not self._is_own(told) and self._is_text_forgotten(item):
            return Outcome.FORGOTTEN
        has_slot = memory.slot and memory_records.memory_by_slot(store, memory.slot) is not None
        if self._seen & again or has_slot or (memory.stable_id and has_stable_id(store, memory.stable_id)):
            return Outcome.KNOWN
        self._seen |= names | again
        return Outcome.ADDED

    def _is_text_forgotten(self, incoming: IncomingMemory) -> bool:
        project = self._places.find(incoming).project
        texts = (incoming.memory.summary, incoming.memory.content)
        return is_text_forgotten(self._store, texts, None if project is None else project.id)

    def _clean(self, incoming: IncomingMemory) -> IncomingMemory:
        """Return a memory without secrets. A memory that reads like someone else's order is marked as suspect."""
        redact, memory = self._redact, incoming.memory
        clean = dataclasses.replace(
            _redacted(memory, redact),
            session_id=self._clean_id(memory.session_id),
            stable_id=self._clean_id(memory.stable_id),
            slot=self._clean_id(memory.slot or "") or None,
            questions=clean_questions(memory.questions, redact),
            title=clean_title(redact(memory.title)),
        )
        if not self._is_own(incoming):
            names = () if incoming.place is None else (incoming.place.name,)
            texts = (clean.title, clean.summary, clean.content, *clean.facts, *clean.questions)
            reason = clean.suspect or why_any_suspect(texts, (*clean.entities, *names)) or ""
            scope, content = Scope.PROJECT if reason else clean.scope, clean.content[:MAX_FOREIGN_CONTENT]
            clean = dataclasses.replace(clean, suspect=reason, scope=scope, content=content)
        return dataclasses.replace(
            incoming,
            memory=clean,
            place=_redacted(incoming.place, self._clean_name),
            evidence=tuple(entry for entry in incoming.evidence if _redacted(entry, self._clean_name) == entry),
            history=tuple(map(self._clean_step, incoming.history)),
            contradictions=_redacted(incoming.contradictions, redact),
            agent=self._clean_name(incoming.agent),
            reason=redact(incoming.reason),
        )

    def _clean_step(self, step: Change) -> Change:
        before, after = (
            {
                self._redact(name): _redacted(value, self._clean_name if name in _NAMING_FIELDS else self._redact)
                for name, value in fields.items()
            }
            for fields in (step.before, step.after)
        )
        action, reason = self._redact(step.action), self._redact(step.reason)
        return dataclasses.replace(step, action=action, reason=reason, before=before, after=after)

    def _clean_name(self, text: str) -> str:
        """Return a name or path with secrets redacted. Hashes are kept, because they reveal nothing."""
        redacted = self._redact(text)
        return redacted if "[secret:" in redacted else text

    def _clean_id(self, text: str) -> str:
        """Return an id; "" if it contains a secret, since two ids could become equal once redacted."""
        return text if self._clean_name(text) == text else ""

    def _is_own(self, item: IncomingMemory | IncomingTombstones) -> bool:
        return item.record is not None and (self._is_mine or is_proven(self._store, item.record))

    def _as_received(self, incoming: IncomingMemory) -> IncomingMemory:
        """Return a memory as it is to be stored: only the user's own keeps its ids, voice, pin, times and history."""
        memory = incoming.memory
        if self._is_own(incoming):
            return incoming
        if incoming.record is not None:
            memory = said_by_others(memory)
            incoming = dataclasses.replace(incoming, evidence=())
            if memory_records.find_memory(self._store, memory.superseded_by) is not None:
                # No memory of the user's becomes the successor of somebody else's.
                memory = dataclasses.replace(memory, status=Status.ARCHIVED, superseded_by="")
            elif memory.superseded_by:
                memory = dataclasses.replace(memory, superseded_by=id_of_foreign(memory.superseded_by))
        memory = bounded(memory)
        is_project = memory.scope is Scope.PROJECT or not self._is_global
        now_ms = max(self._store.now_ms(), SYSTEM_CLOCK.now_ms())
        past = {name: max(0, min(at_ms, now_ms)) for name in _TIMES if (at_ms := getattr(memory, name)) is not None}
        scope = Scope.PROJECT if is_project else Scope.GLOBAL
        # A memory that someone else judged wrong is archived, without keeping the user from saying the same thing.
        status = Status.ARCHIVED if memory.is_lowered else memory.status
        memory = dataclasses.replace(
            memory,
            voice=Voice.IMPORTED,
            is_pinned=False,
            is_lowered=False,
            scope=scope,
            status=status,
            **past,
        )
        return dataclasses.replace(incoming, memory=memory, history=(), contradictions=())

    def _add_memory(self, tx: Tx, incoming: IncomingMemory) -> None:
        if self._report.run_id is None:
            self._report.run_id = memory_history.add_run(tx, memory_history.IMPORT_KIND, self._facts())
        found = self._places.find(incoming, tx)
        project_id = None if found.project is None else found.project.id
        if found.is_new and project_id is not None:
            self._new_project_ids.append(project_id)
        self._count_place(found)
        memory = dataclasses.replace(incoming.memory, project_id=project_id)
        if memory.session_id:
            sessions.ensure_session(
                tx,
                memory.session_id,
                agent=incoming.agent or AGENT,
                project_id=project_id,
                is_global=False,
                cwd="",
                at_ms=memory.created_at_ms,
            )
        history = [
            dataclasses.replace(step, before=with_project_ids(tx, step.before), after=with_project_ids(tx, step.after))
            for step in incoming.history
        ]
        import_memory(tx, memory, incoming.evidence, history, reason=incoming.reason, run_id=self._report.run_id)
        self._contradictions += incoming.contradictions

    def _count_place(self, found: FoundPlace) -> None:
        self._report.projects[found.name] += 1
        if found.is_new and found.name not in self._report.new_projects:
            self._report.new_projects.append(found.name)

    def _note_problem(self, problem: Unusable) -> None:
        self._report.counts[Outcome.BAD] += 1
        if len(self._report.problems) < MAX_PROBLEMS:
            self._report.problems.append(problem)

    def _facts(self) -> dict[str, Any]:
        """Return the content of the run's report, without any text of memories."""
        return {
            "format": self._report.format,
            "added": self._report.counts[Outcome.ADDED],
            "new_projects": self._new_project_ids,
        }


def _not_forgotten_here(count: int) -> str:
    forgotten = number_of(count, "item")
    return f"Left out: {forgotten} that somebody forgot in the memory of this export; with --mine, they count here too"


#: Fields in a step of the history that are ids or paths, and the list of entries of evidence.
_NAMING_FIELDS = frozenset({"slot", "stable_id", "session_id", "project_identity", "entries"})


def _redacted(value: Any, redact: Redact) -> Any:
    """Return a value, such as a record, with every text in it redacted."""
    if isinstance(value, StrEnum):
        return value
    if isinstance(value, str):
        return redact(value) if value else value
    if isinstance(value, Mapping):
        return {redact(name): _redacted(inner, redact) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_redacted(inner, redact) for inner in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {known.name: getattr(value, known.name) for known in dataclasses.fields(value)}
        return dataclasses.replace(value, **{name: _redacted(inner, redact) for name, inner in fields.items()})
    return value


@dataclass(frozen=True, slots=True)
class UndoneImport:
    run_id: int
    removed: int
    #: Memories that were kept, each with the reason.
    kept: tuple[tuple[str, str], ...]


def undo_import(store: Store, run_id: int) -> UndoneImport:
    """Remove the memories that an import added, except those that have been changed since or have absorbed others.

    Removed memories can be imported again. Projects that came with them and are now empty are deleted too.

    Raises:
        NotFound: there is no such import.
        BadRequest: the import has already been undone.
    """
    run = memory_history.find_run(store, run_id, [memory_history.IMPORT_KIND])
    if run is None:
        raise NotFound(f"there is no import {run_id}; `engram import --list` shows them")
    if run.state == "undone":
        raise BadRequest(f"import {run_id} has already been undone")
    ids = imported_by(store, run_id)
    imported = frozenset(ids)
    removed: list[Memory] = []
    kept: list[tuple[str, str]] = []
    for start in range(0, len(ids), BATCH):
        with store.transaction() as tx:
            for episode_id in ids[start : start + BATCH]:
                memory = memory_records.find_memory(tx, episode_id)
                if memory is not None and (reason := why_not_removed(tx, memory, imported)):
                    kept.append((episode_id, reason))
                elif memory is not None:
                    # Without a tombstone, so that it can be imported again.
                    memory_changes.remove_memory(tx, memory, actor=Actor.USER)
                    removed.append(memory)
    with store.transaction() as tx:
        drop_empty_sessions(tx, sorted({memory.session_id for memory in removed if memory.session_id}))
        drop_empty_projects(tx, [int(number) for number in run.report.get("new_projects", ())])
        memory_history.update_run(tx, run, position="", report=run.report, state="undone")
    return UndoneImport(run_id, len(removed), tuple(kept))
