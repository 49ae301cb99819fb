"""Recognise renamed or moved projects by their hints, and re-sort sessions by their folders.

The project of a folder may become known only later, for example if a deleted worktree was read before its repository,
or if an earlier version put the sessions of many projects into one. Sorting can be undone; changes that were undone are
not made again.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path, PurePath

from engram.enums import Actor
from engram.errors import BadRequest
from engram.ingest.session_project import TurnPlaces, holds_another, project_for, store_project
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.transaction import Store
from engram.models.hub.shares import list_rules
from engram.models.memories.memory_changes import say_project_again
from engram.models.projects.project_folders import (
    Part,
    ProjectHints,
    begin_sorting,
    end_sorting,
    kept_apart,
    list_hints,
    merge_projects,
    move_parts,
    note_hints,
    note_merged,
)
from engram.models.projects.projects import MOVED, ProjectRow, known_roots, lose_folder
from engram.models.sessions.sessions import SessionRow, first_session_ms, list_sessions
from engram.models.sessions.stored_turns import calls_of_session, folders_of_turns
from engram.models.sessions.turn_changes import SORTED
from engram.models.work.work import paused_scopes
from engram.paths import path_of
from engram.settings import Settings
from engram.system.failpoint import reach
from engram.transcripts.git_commands import read_git_hints
from engram.transcripts.git_files import begun_at_ms
from engram.transcripts.project import KnownRoot, KnownRoots, Project, find_repository, holds_what_is_not_its_own
from engram.transcripts.turns import Turn
from engram.vaults import is_excluded_by_vault, own_vault

logger = logging.getLogger(__name__)

#: Hints younger than this, in milliseconds, are not reread.
FRESH_MS = 86_400_000
#: Prefix of the identity of a project of which only the name is known.
NAME_ONLY = "name:"
#: Key of the digest of the data with which sessions were last sorted, and the version of the sorting rules.
_SORTED_FOR, _SORTING_RULES = "sorted_for", 3
#: Number of sessions sorted in one transaction.
_SESSIONS_AT_ONCE = 20
#: Maximum number of repositories to read in one call, so that a call stays short.
MAX_READ = 3
#: The limit for calls that may take long, and before data is sent to machines that identify a project by its remote.
MAX_READ_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Move:
    """A project with a folder that is gone, and another folder's project that may be the same project."""

    former: ProjectHints
    present: ProjectHints
    #: True if both hints agree and no other project matches.
    is_certain: bool


def read_hints(store: Store, limit: int = MAX_READ) -> int:
    """Read the hints of projects with folders that exist and were not read recently; return the number of projects."""
    now_ms = store.now_ms()
    due = [
        hints for hints in list_hints(store) if not 0 <= now_ms - hints.read_at_ms < FRESH_MS and hints.present_folder
    ]
    for hints in sorted(due, key=lambda hints: hints.read_at_ms)[:limit]:
        folder = Path(hints.present_folder)
        is_own = str(folder) == hints.project.root
        if is_own and holds_another(store, folder, hints.project, hints.remote, hints.first_commit):
            with store.transaction() as tx:
                lose_folder(tx, hints.project.id)
            logger.info("action=lose_folder project=%d", hints.project.id)
            continue
        read = read_git_hints(folder)
        with store.transaction() as tx:
            note_hints(tx, hints.project.id, read.remote, read.first_commit)
            if read.remote != hints.remote:
                say_project_again(tx, hints.project.id)
    return min(len(due), limit)


def find_moves(store: Store) -> list[Move]:
    """Return projects without an existing folder, each with the existing ones that share its remote or first commit."""
    known = list_hints(store)
    gone = [hints for hints in known if (hints.remote or hints.first_commit) and not hints.present_folder]
    present = [hints for hints in known if hints.present_folder]
    moves = []
    for former in gone:
        same = [hints for hints in present if _agree(former, hints)]
        is_certain = len(same) == 1 and len([hints for hints in gone if _agree(hints, same[0])]) == 1
        moves += [Move(former, hints, is_certain) for hints in same]
        if not same:
            moves += [Move(former, hints, False) for hints in present if _share_a_hint(former, hints)]
    named = [hints for hints in known if hints.project.identity.startswith(NAME_ONLY) and not hints.folders]
    return moves + [Move(former, hints, False) for former in named for hints in present if _has_name_of(hints, former)]


def find_clones(store: Store) -> list[tuple[ProjectRow, ProjectRow]]:
    """Return the projects whose folders are clones of another project's repository, each with the oldest such project.

    Clones stay separate projects unless a person merges them, because two clones may be for two clients.
    """
    present = sorted((hints for hints in list_hints(store) if hints.present_folder), key=lambda hints: hints.project.id)
    oldest = [(hints, next(other for other in present if other is hints or _agree(hints, other))) for hints in present]
    return [(hints.project, first.project) for hints, first in oldest if first is not hints]


def join_moved(store: Store) -> list[str]:
    """Join the folders of projects that have certainly moved, and return their names."""
    joined = []
    for move in find_moves(store):
        if not move.is_certain:
            continue
        try:
            reason = f"{MOVED}{move.former.project.root}: same remote and first commit"
            merge_projects(store, move.former.project, move.present.project, reason, actor=Actor.TIDYING)
        except BadRequest as error:
            logger.info("action=join_moved project=%d not=%s", move.former.project.id, error)
            continue
        logger.info("action=join_moved project=%d folder_of=%d", move.former.project.id, move.present.project.id)
        joined.append(move.former.project.name)
    return joined


# -- sorting


@dataclass(frozen=True, slots=True)
class Sorted:
    """A session, some of its turns, or a whole project that is stored under a project to which it does not belong."""

    former: ProjectRow
    present: Project
    #: Row id of the session; 0 if the entire former project moves because it is not a project in its own right.
    session_ref: int = 0
    #: True if the session itself moves, not only some of its turns.
    is_session: bool = False
    turn_ids: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if everything in the former project moves."""
        return not self.session_ref


def plan_sorting(store: Store, settings: Settings) -> list[Sorted]:
    """Return what would be sorted, without changing anything: whole projects first, then the parts of each session.

    A session moves to another project only if its folder is now known to belong to that one, and its former project

    - is not a project in its own right, such as a folder inside a repository,
    - contains sessions that are not its own: a home folder, or a tool's folder of worktrees, or
    - is a folder without a repository above the session's.

    A turn moves from its session's project to the repository in which it took place or did its work. Nothing moves to
    or from a paused project, or into a vault.
    """
    if own_vault(settings.places) is not None:
        return []
    sorter = _Sorter(store, settings)
    return [*sorter.whole_projects(), *sorter.parts()]


def sort_projects(store: Store, settings: Settings) -> list[Sorted]:
    """Sort sessions and turns by their folders, as a change that can be undone; return what was sorted.

    A session is sorted completely or not at all. After an interruption, the next call continues the same sorting.
    Nothing is sent to a hub.
    """
    if own_vault(settings.places) is not None:
        return []
    sorter = _Sorter(store, settings)
    done = [part for part in sorter.whole_projects() if _move(store, [part])]
    if done:  # a session of a project that was merged into another may have worked in a third one
        sorter = _Sorter(store, settings)
    done += (part for batch in _batches(sorter.parts()) if _move(store, batch) for part in batch)
    if done:
        logger.info("action=sort parts=%d turns=%d", len(done), sum(len(part.turn_ids) for part in done))
    with store.transaction() as tx:
        end_sorting(tx)
    return done


def sort_if_due(store: Store, settings: Settings) -> list[Sorted]:
    """Sort if projects have become known since the last time, or if an earlier version of the rules was used then."""
    known = f"{_SORTING_RULES} {sorted(known_roots(store))} {sorted(paused_scopes(store))}"
    mark = hashlib.sha256(known.encode("utf-8", "surrogateescape")).hexdigest()
    if get_meta(store, _SORTED_FOR) == mark:
        return []
    done = sort_projects(store, settings)
    with store.transaction() as tx:
        put_meta(tx, _SORTED_FOR, mark)
    return done


def settle_projects(store: Store, settings: Settings, limit: int = MAX_READ) -> bool:
    """Read the hints of up to ``limit`` projects, join those that have moved and sort; return whether any changed."""
    read_hints(store, limit)
    return bool([*join_moved(store), *sort_if_due(store, settings)])


def _batches(parts: Iterable[Sorted]) -> Iterator[list[Sorted]]:
    """Yield batches, each of which contains all parts of a few sessions and is sorted in one transaction."""
    sessions = [list(of_session) for _, of_session in groupby(parts, lambda part: part.session_ref)]
    for start in range(0, len(sessions), _SESSIONS_AT_ONCE):
        yield [part for of_session in sessions[start : start + _SESSIONS_AT_ONCE] for part in of_session]


def _move(store: Store, batch: Sequence[Sorted]) -> bool:
    """Sort a batch completely or not at all; return False if that is not allowed."""
    try:
        with store.transaction() as tx:
            number = begin_sorting(tx)
            places = [store_project(tx, part.present) for part in batch]
            if batch[0].is_whole:
                merge_projects(store, places[0], batch[0].former, SORTED, actor=Actor.TIDYING, is_said=False)
                note_merged(tx, number)
            else:
                parts = [
                    Part(part.former.id, into.id, part.session_ref, part.is_session, part.turn_ids)
                    for part, into in zip(batch, places, strict=True)
                ]
                move_parts(tx, number, parts, actor=Actor.TIDYING)
            reach("sort.moved")
    except BadRequest as error:
        logger.info("action=sort project=%d not=%s", batch[0].former.id, error)
        return False
    reach("sort.committed")
    return True


class _Sorter:
    """Compares the projects in which sessions and turns are stored with those to which they belong."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._apart = kept_apart(store)
        self._paused = paused_scopes(store)
        self._roots = KnownRoots(partial(known_roots, store))
        self._hints = {hints.project.id: hints for hints in list_hints(store)}
        self._with_rules = {rule.project_id for rule in list_rules(store)}
        self._of_folder: dict[str, Project] = {}
        self._whole: set[int] = set()

    def whole_projects(self) -> list[Sorted]:
        """Return the projects with a folder that belongs to another project."""
        found = list(self._whole_projects())
        self._whole = {part.former.id for part in found}
        return found

    def parts(self) -> Iterator[Sorted]:
        """Yield the parts of each session that move, except those in whole projects already found."""
        worked_in: dict[int, set[str]] = {}
        for place in folders_of_turns(self._store):
            worked_in.setdefault(place.session_ref, set()).add(place.cwd)
        for session in list_sessions(self._store):
            hints = None if session.project_id in self._whole else self._hints.get(session.project_id or 0)
            if hints is not None and session.cwd and hints.project.identity not in self._apart:
                yield from self._parts_of(session, hints, worked_in.get(session.id, set()))

    def _parts_of(self, session: SessionRow, hints: ProjectHints, worked_in: Collection[str]) -> Iterator[Sorted]:
        """Yield the parts of a session that move, one for each project; the session itself first, if it moves."""
        present = self._project_of_session(session, hints)
        own = self._project_at(session.cwd)
        is_above = not own.is_repository and os.path.isdir(session.cwd)
        turns: dict[str, list[int]] = {} if present is None else {present.identity: []}
        projects: dict[str, Project] = {} if present is None else {present.identity: present}
        if present is not None or is_above or not set(worked_in) <= {session.cwd}:
            for place, turn_id in self._turns_of(session, hints.project, present):
                turns.setdefault(place.identity, []).append(turn_id)
                projects[place.identity] = place
        for identity, turn_ids in turns.items():
            is_session = present is not None and identity == present.identity
            yield Sorted(hints.project, projects[identity], session.id, is_session, tuple(turn_ids))

    def _turns_of(
        self, session: SessionRow, former: ProjectRow, goes_to: Project | None
    ) -> Iterator[tuple[Project, int]]:
        """Yield the new project and the row id of each turn that is stored in the wrong project."""
        places = TurnPlaces(
            self._store, self._settings, session.cwd, former.identity if goes_to is None else goes_to.identity
        )
        for stored in calls_of_session(self._store, session.id):
            if stored.project_id != former.id or f"turn {stored.stable_id}" in self._apart:
                continue
            present = places.project_of(stored.turn)
            if present is not None and self._may_go(former, present) and _was_there(stored.turn, present):
                yield present, stored.id
            elif goes_to is not None:
                yield goes_to, stored.id

    def _whole_projects(self) -> Iterator[Sorted]:
        for hints in self._hints.values():
            former = hints.project
            if not former.root or former.id in self._with_rules or former.identity in self._apart:
                continue
            present = project_for(self._store, former.root, self._settings, self._roots_for(hints))
            if self._may_go(former, present) and (present.is_repository or _was_same_link(self._store, hints)):
                yield Sorted(former, present)

    def _roots_for(self, hints: ProjectHints) -> Iterable[KnownRoot]:
        """Return the known folders, leaving out the project's own folder if that was never found to be a repository."""
        if hints.remote or hints.first_commit:
            return self._roots
        return [root for root in self._roots if root.path != hints.project.root]

    def _project_at(self, folder: str) -> Project:
        if folder not in self._of_folder:
            self._of_folder[folder] = project_for(self._store, folder, self._settings, self._roots)
        return self._of_folder[folder]

    def _project_of_session(self, session: SessionRow, hints: ProjectHints) -> Project | None:
        """Return the project to which a session moves because of its folder; None if it stays where it is."""
        present = self._project_at(session.cwd)
        if f"session {session.session_id}" in self._apart or not self._may_go(hints.project, present):
            return None
        if holds_what_is_not_its_own(hints.project.root):
            return present
        root = Path(os.path.realpath(hints.project.root))
        is_plain = not (hints.remote or hints.first_commit) and os.path.isdir(root) and find_repository(root) is None
        return present if is_plain and root in Path(present.root).parents else None

    def _may_go(self, former: ProjectRow, present: Project) -> bool:
        """Return True if ``present`` is a project at another path, is not in a vault, and neither project is paused."""
        return (
            bool(present.identity)
            and not present.is_global
            and path_of(present.identity) != path_of(former.identity)
            and self._paused.isdisjoint(("", former.identity, present.identity))
            and not is_excluded_by_vault(self._settings.places, present.identity, present.root)
        )


def _was_there(turn: Turn, present: Project) -> bool:
    """Return False if the repository is younger than the turn, when its path contained something else."""
    begun = begun_at_ms(Path(present.root)) if present.is_repository else None
    is_below = present.root.startswith(turn.cwd.rstrip("/") + "/")
    return is_below or begun is None or turn.started_at_ms is None or begun <= turn.started_at_ms


def _was_same_link(store: Store, hints: ProjectHints) -> bool:
    """Return True if a project's folder is a link that has had the same target since before the first session."""
    root = hints.project.root
    first_ms = first_session_ms(store, hints.project.id)
    links = [folder for folder in (Path(root), *Path(root).parents) if os.path.islink(folder)]
    return bool(links and first_ms) and all(os.lstat(link).st_mtime * 1000 < first_ms for link in links)


def _agree(hints: ProjectHints, other: ProjectHints) -> bool:
    """Return True if both hints are known for both projects, and equal."""
    known = (hints.remote, hints.first_commit)
    return all(known) and known == (other.remote, other.first_commit)


def _share_a_hint(hints: ProjectHints, other: ProjectHints) -> bool:
    return bool(hints.remote and hints.remote == other.remote) or bool(
        hints.first_commit and hints.first_commit == other.first_commit
    )


def _has_name_of(hints: ProjectHints, former: ProjectHints) -> bool:
    """Return True if a folder has the name of a project of which only the name is known, such as an imported one."""
    name = PurePath(former.project.identity.removeprefix(NAME_ONLY)).name
    return PurePath(hints.present_folder).name.casefold() == name.casefold()
