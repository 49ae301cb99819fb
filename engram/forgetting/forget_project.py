"""Forget an entire project: delete everything about it in the memory folder, except global memories."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from engram.enums import Actor
from engram.forgetting.forget_files import (
    all_notes,
    clean_copies,
    clean_exports,
    clean_recollections,
    cut_daily_log,
    line_beginnings,
    plain_line,
    rewrite_notes,
)
from engram.models.engine.transaction import Store, Tx
from engram.models.forgetting import erase_project as erasing
from engram.models.forgetting import forget_memories
from engram.models.forgetting.erase_project import ProjectContents
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.memories.tombstones import Forgotten
from engram.models.projects.notes import EVERYONE, NOBODY, Owner
from engram.models.projects.project_folders import identities_of_project
from engram.models.projects.projects import ProjectRow, names_of_project
from engram.models.rescue.backup import holding_backups
from engram.models.rescue.restore import foreign_files
from engram.notes.daily_log import move_saved_notes, notes_lock
from engram.notes.note_index import owners_of_lines, source_name
from engram.paths import Home
from engram.system.atomic import drop_leftovers
from engram.system.failpoint import reach
from engram.system.lazy_regex import lazy_regex

logger = logging.getLogger(__name__)

#: Number of turns or memories that are deleted in one transaction; small, so that other writers don't have to wait
#: long.
_BATCH = 50
Item = TypeVar("Item")
_MEMORY_ID = lazy_regex(r"ep_[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ForgottenProject:
    """What was deleted with a project, and what was kept."""

    name: str
    #: The folder of the project, which remains known.
    folder: str
    sessions: int
    turns: int
    memories: int
    #: Global memories that came from the project and were kept, without their evidence.
    kept_global: tuple[Memory, ...]
    #: Files in the memory folder that were removed or rewritten.
    files: tuple[str, ...]
    #: Number of backups and set-aside databases that were cleaned.
    backups: int
    #: Number of backups and set-aside databases that were deleted because they could not be changed.
    dropped_backups: int
    #: Names of other programs' databases in the memory folder, which may still contain the project's words.
    foreign: tuple[str, ...] = ()


def forget_project(
    store: Store,
    places: Home,
    project: ProjectRow,
    *,
    actor: Actor,
    in_copy: Callable[[Tx, Callable[[Tx], int]], int] = lambda tx, erase: erase(tx),
) -> ForgottenProject:
    """Delete everything about a project, everywhere in the memory folder.

    This covers its turns, passages, memories, vectors, history and records of memories shown in its sessions; its
    sections of the daily log and ``MEMORY.md``, saved notes, recollections and lines of exports; and all of this in
    backups and set-aside databases. A tombstone prevents everything that was said in it so far from being stored again;
    later sessions are read as before. Global memories that came from it keep only their summary. The transcripts belong
    to the agent and are kept.

    Everything that refers to a memory by id (files, copies, reports of runs) is cleaned before the memory is deleted,
    so that this function can be called again if it is interrupted.

    Args:
        in_copy: called for each backup and set-aside database, with a function that erases the project there.

    Raises:
        StoreError: the database can't be written; try again.
    """
    with holding_backups(places.backups):
        with store.transaction() as tx:
            until_ms = erasing.note_forgotten_project(tx, project)
        reach("forget_project.marked")
        contents = erasing.contents_of_project(store, project)
        traces = _ProjectTraces(store, contents, actor)
        ids = traces.episode_ids | {memory.episode_id for memory in contents.released}
        with notes_lock(places):
            drop_leftovers(places.root, 0)
        move_saved_notes(places)
        backups, dropped = clean_copies(places, store.driver, lambda tx: in_copy(tx, traces.forget_in_copy))
        reach("forget_project.copies")
        cleaned = clean_recollections(places, lambda text: not ids & set(_MEMORY_ID.findall(text)), traces.session_ids)
        cleaned += clean_exports(places, ids)
        notes = traces.clean_notes(places)
        with store.transaction() as tx:
            forget_memories.clean_runs(tx, traces.is_line_kept, traces.clean_note)
        reach("forget_project.files")
        _erase(store, contents, actor)
        # Erase what was stored by a read or extraction that was in progress when the tombstone was added.
        late = erasing.contents_of_project(store, project, until_ms)
        _erase(store, late, actor)
        notes += cut_daily_log(places, sorted(traces.session_ids))
        with store.transaction() as tx:
            forget_memories.drop_notes(tx, [str(path) for path in notes])
    forget_memories.wipe_free_space(store)
    files = list(dict.fromkeys([*cleaned, *(path.name for path in notes)]))
    logger.info(
        "action=forget_project project=%d turns=%d memories=%d files=%d",
        project.id,
        len(contents.turn_ids),
        len(contents.memories),
        len(files),
    )
    return ForgottenProject(
        name=project.name,
        folder=project.root,
        sessions=len(contents.session_ids),
        turns=len(contents.turn_ids) + len(late.turn_ids),
        memories=len(contents.memories) + len(late.memories),
        kept_global=contents.released,
        files=tuple(files),
        backups=backups,
        dropped_backups=dropped,
        foreign=tuple(path.name for path in foreign_files(places.root, store.driver)),
    )


def _erase(store: Store, contents: ProjectContents, actor: Actor) -> None:
    with store.transaction() as tx:
        erasing.release_memories(tx, contents, actor=actor)
    with store.transaction() as tx:
        erasing.clean_traces(tx, contents)
    _in_batches(store, contents.memories, partial(erasing.erase_memories, actor=actor))
    _in_batches(store, contents.turn_ids, erasing.erase_turns)


def _in_batches(store: Store, items: Sequence[Item], erase: Callable[[Tx, Sequence[Item]], None]) -> None:
    for start in range(0, len(items), _BATCH):
        with store.transaction() as tx:
            erase(tx, items[start : start + _BATCH])
        reach("forget_project.batch")


class _ProjectTraces:
    """Finds traces of a forgotten project in notes, reports and copies of the database."""

    def __init__(self, store: Store, contents: ProjectContents, actor: Actor) -> None:
        self._actor = actor
        self.session_ids = frozenset(contents.session_ids)
        self.episode_ids = {memory.episode_id for memory in contents.memories}
        self._names = names_of_project(store, contents.project.id)
        texts = [text for memory in contents.memories for text in (memory.summary, memory.content, *memory.facts)]
        self._beginnings = line_beginnings(texts)
        self._turn_keys = tuple(forget_memories.turn_keys(store, contents.turn_ids))
        identities = identities_of_project(store, contents.project)
        self._marks = erasing.forgotten_marks(store, identities)

    def is_line_kept(self, line: str) -> bool:
        """Return False for a line that contains the id of one of the memories."""
        return not self.episode_ids & set(_MEMORY_ID.findall(line))

    def clean_note(self, source: str, text: str) -> str:
        """Return a note without the project's lines. Lines of other projects are kept, whatever they contain."""
        lines = text.splitlines(keepends=True)
        owners = owners_of_lines(source, [line.rstrip("\r\n") for line in lines])
        return "".join(line for line, owner in zip(lines, owners, strict=True) if not self._owns(owner, line))

    def _owns(self, owner: Owner, line: str) -> bool:
        if owner.kind == "session":
            return owner.key in self.session_ids
        if owner.kind == "project":
            return owner.key in self._names
        if owner.kind == "memory":
            return owner.key in self.episode_ids
        assert owner in (EVERYONE, NOBODY)
        return not self.is_line_kept(line) or any(text in plain_line(line) for text in self._beginnings)

    def clean_notes(self, places: Home) -> list[Path]:
        """Clean every note in the memory folder; return those that changed."""

        def clean(path: Path, text: str) -> str:
            return self.clean_note(source_name(places, path), text)

        return rewrite_notes(places, all_notes(places), clean)

    def forget_in_copy(self, tx: Tx) -> int:
        """Erase the project in a copy of the database, whatever its name there."""
        erased = erasing.carry_forgotten_projects(tx, self._marks, self.clean_note, actor=self._actor)
        forgotten = Forgotten(
            episode_ids=tuple(episode_id for episode_id in self.episode_ids if find_memory(tx, episode_id) is not None),
            turn_keys=self._turn_keys,
        )
        forget_memories.clean_runs(tx, self.is_line_kept, self.clean_note)
        return erased + forget_memories.forget_in_copy(tx, forgotten, self.is_line_kept, actor=self._actor)
