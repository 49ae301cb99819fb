"""Forget an entire project, except its global memories, or move it into a vault and back out."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from engram.enums import Actor
from engram.errors import BadRequest, StoreError
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
from engram.models.forgetting.erase_project import ProjectContents, contents_of_project
from engram.models.memories.memory_records import MEMORY_ID, Memory, find_memory
from engram.models.memories.tombstones import Forgotten
from engram.models.open_memory import open_memory
from engram.models.projects.notes import EVERYONE, NOBODY, Owner
from engram.models.projects.project_folders import list_hints
from engram.models.projects.projects import (
    ProjectRow,
    find_project_of_identity,
    identities_of_project,
    names_of_project,
)
from engram.models.rescue import copy_project
from engram.models.rescue.backup import holding_backups, make_backup
from engram.models.rescue.restore import foreign_files
from engram.models.sessions.reading_progress import note_kept_out
from engram.models.work.work import TASKS_SCOPE, copy_pauses, drop_pauses
from engram.notes.daily_log import move_saved_notes, notes_lock, read_text, write_text
from engram.notes.note_index import owners_of_lines, source_name
from engram.paths import Home
from engram.settings import Settings
from engram.system.atomic import drop_leftovers, write_atomic
from engram.system.failpoint import reach
from engram.transcripts.git_commands import is_other_repository
from engram.transcripts.git_files import read_first_commit, read_remote
from engram.transcripts.registry import discover
from engram.vaults import Vault, change_vault, free_folder, mark_of, own_vault, vault_of_identity, write_vault

logger = logging.getLogger(__name__)

#: Number of turns or memories that are deleted in one transaction; small, so that other writers don't have to wait
#: long.
_BATCH = 50
Item = TypeVar("Item")


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
    #: Why unused parts of memory.db may still contain them; empty if they do not.
    not_wiped: str = ""


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
            forget_memories.note_wipe_due(tx)
        reach("forget_project.marked")
        contents = erasing.contents_of_project(store, project)
        traces = _ProjectTraces(store, contents, actor)
        ids = traces.episode_ids | {memory.episode_id for memory in contents.released}
        with notes_lock(places):
            drop_leftovers(places.root, 0)
        move_saved_notes(places)
        backups, dropped = clean_copies(places, store.driver, lambda tx: in_copy(tx, traces.forget_in_copy))
        reach("forget_project.copies")
        cleaned = clean_recollections(places, lambda text: not ids & set(MEMORY_ID.findall(text)), traces.session_ids)
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
    not_wiped = forget_memories.finish_wipe(store)
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
        not_wiped=not_wiped,
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
        return not self.episode_ids & set(MEMORY_ID.findall(line))

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
        return rewrite_notes(
            places, all_notes(places), lambda path, text: self.clean_note(source_name(places, path), text)
        )

    def forget_in_copy(self, tx: Tx) -> int:
        """Erase the project in a copy of the database, whatever its name there."""
        erased = erasing.carry_forgotten_projects(tx, self._marks, self.clean_note, actor=self._actor)
        forgotten = Forgotten(
            episode_ids=tuple(episode_id for episode_id in self.episode_ids if find_memory(tx, episode_id) is not None),
            turn_keys=self._turn_keys,
        )
        forget_memories.clean_runs(tx, self.is_line_kept, self.clean_note)
        return erased + forget_memories.forget_in_copy(tx, forgotten, self.is_line_kept, actor=self._actor)


# -- Move a project into a vault, where it is hidden from everything outside, or move it back out.

#: Name of the file that keeps the tombstones from before a move into a vault while the move is in progress.
_TOMBSTONES_NAME = ".forgotten-before.json"


@dataclass(frozen=True, slots=True)
class Moved:
    name: str
    #: The vault's memory folder.
    folder: Path
    sessions: int
    memories: int
    #: How many of the memories are replaced or archived.
    retired: int


def check_move(store: Store, settings: Settings, project: ProjectRow) -> tuple[str, ...]:
    """Return a project's identities. Raises BadRequest if the project can't be moved into a vault."""
    if own_vault(settings.places) is not None:
        raise BadRequest("a vault contains a single project and can't contain other vaults")
    identities = tuple(identities_of_project(store, project))
    if not any(Path(identity).is_absolute() for identity in identities):
        raise BadRequest(
            f"{project.name} has no folder on this machine, so Engram can't tell which sessions belong in its vault"
        )
    return identities


def move_into_vault(store: Store, settings: Settings, project: ProjectRow) -> Moved:
    """Move a project's turns, memories (including global ones) and notes into a vault, leaving nothing outside.

    The project is removed from backups and exports in the memory folder, as with ``projects forget``. To continue an
    interrupted move, call this again; until the move is complete, nothing new from the project is stored anywhere.

    Raises:
        BadRequest: the memory folder is itself a vault, or the project has no folder.
        StoreError: a database can't be written.
    """
    places = settings.places
    identities = check_move(store, settings, project)
    vault = vault_of_identity(places, project.identity)
    if vault is None:
        vault = Vault(project.name, identities, free_folder(places, project.name), is_sealed=False)
        write_vault(vault)
    note_repository(store, vault)
    reach("vault.begun")
    vault.home.prepare()
    with open_memory(vault.home.memory_db, driver=store.driver, is_made=True) as inner:
        copy_project.take_over_salt(inner, store)
        copy_project.copy_project(inner, store.path, project)
        with inner.transaction() as tx:
            # What was said in a pause is never read, wherever the project's memory is.
            copy_pauses(tx, store, {scope: scope for scope in ("", TASKS_SCOPE, *vault.spellings)})
    contents = contents_of_project(store, project)
    moved = _moved(vault, project.name, contents)
    _move_notes(store, settings, dataclasses.replace(settings, home=vault.folder), project)
    reach("vault.copied")
    before = _tombstones_before(store, vault)
    with store.transaction() as tx:
        copy_project.make_project_scoped(tx, project)
    forget_project(
        store,
        places,
        project,
        actor=Actor.USER,
        in_copy=lambda tx, erase: copy_project.move_out_of_copy(tx, identities, erase),
    )
    with store.transaction() as tx:
        copy_project.put_tombstones_back(tx, before)
        copy_project.drop_project_rows(tx, project)
        drop_pauses(tx, vault.spellings)
    for source in discover(settings):
        if source.session_id in contents.session_ids:
            note_kept_out(store, source)
    seal(vault)
    logger.info("action=vault project=%d memories=%d", project.id, moved.memories)
    return moved


def _moved(vault: Vault, name: str, contents: ProjectContents) -> Moved:
    memories = [*contents.memories, *contents.released]
    retired = sum(not memory.is_current for memory in memories)
    return Moved(name, vault.folder, len(contents.session_ids), len(memories), retired)


def note_repository(store: Store, vault: Vault) -> None:
    """Record the remote and first commit of a vault's repository, by which its folder is known after a move.

    Args:
        store: the memory that contains its project.
    """
    remote, first_commit = vault.remote, vault.first_commit
    for hints in list_hints(store):
        if vault.has_identity(hints.project.identity):
            remote, first_commit = remote or hints.remote, first_commit or hints.first_commit
    folder = Path(vault.present_folder) if vault.present_folder else None
    if folder is not None and not is_other_repository(folder, remote, first_commit):
        remote, first_commit = read_remote(folder) or remote, read_first_commit(folder) or first_commit
    if (remote, first_commit) != (vault.remote, vault.first_commit):
        change_vault(vault, remote=remote, first_commit=first_commit)


def seal(vault: Vault) -> None:
    """Record that nothing from a vault's project is left outside the vault."""
    change_vault(vault, is_sealed=True)
    (vault.folder / _TOMBSTONES_NAME).unlink(missing_ok=True)


def _tombstones_before(store: Store, vault: Vault) -> dict[tuple[str, bytes], int]:
    """Return the tombstones from before the move began, even if the move has been interrupted since."""
    file = vault.folder / _TOMBSTONES_NAME
    if not file.exists():
        known = sorted(copy_project.tombstone_times(store).items())
        write_atomic(file, json.dumps([[kind, key.hex(), at_ms] for (kind, key), at_ms in known]).encode())
    return {(kind, bytes.fromhex(key)): at_ms for kind, key, at_ms in json.loads(file.read_bytes())}


def move_out_of_vault(store: Store, settings: Settings, vault: Vault) -> Moved:
    """Move everything in a vault back into the enclosing memory folder, back that up, and delete the vault.

    To continue an interrupted move, call this again.

    Raises:
        StoreError: a database can't be read or written.
    """
    places, inner_settings = settings.places, dataclasses.replace(settings, home=vault.folder)
    with open_memory(vault.home.memory_db, driver=store.driver, is_made=True) as inner:
        # From now on, nothing is stored in it: if this is interrupted after the copy, what came later would be lost.
        change_vault(vault, is_sealed=False)
        project = next(
            (
                found
                for identity in sorted(vault.spellings)
                if (found := find_project_of_identity(inner, identity)) is not None
            ),
            None,
        )
        moved = Moved(vault.name, vault.folder, 0, 0, 0)
        if project is not None:
            contents = contents_of_project(inner, project)
            moved = _moved(vault, vault.name, contents)
            inner.checkpoint("TRUNCATE")
            copy_project.copy_project(store, inner.path, project)
            with store.transaction() as tx:
                copy_pauses(tx, inner, dict.fromkeys(("", *vault.spellings), project.identity))
            _move_notes(inner, inner_settings, settings, project)
    reach("vault.returned")
    # The vault's backups are deleted with it, and those of the memory folder lack the project.
    try:
        make_backup(store, places.backups)
    except StoreError as error:
        logger.warning("action=unvault backup=failed reason=%s", error)
    mark_of(vault.folder).unlink(missing_ok=True)
    shutil.rmtree(vault.folder)
    with contextlib.suppress(OSError):
        vault.folder.parent.rmdir()
    return moved


def _move_notes(store: Store, settings: Settings, to: Settings, project: ProjectRow) -> None:
    """Copy a project's lines from the notes to the notes of another memory folder, unless they exist there already."""
    names = names_of_project(store, project.id)
    sessions = set(contents_of_project(store, project).session_ids)

    def is_its(owner: Owner) -> bool:
        if owner.kind == "memory":
            memory = find_memory(store, owner.key)
            return memory is not None and memory.project_id == project.id
        return owner.key in {"project": names, "session": sessions}.get(owner.kind, set())

    for path in all_notes(settings.places):
        text = read_text(path) or ""
        lines = text.splitlines(keepends=True)
        source = source_name(settings.places, path)
        owners = owners_of_lines(source, [line.rstrip("\r\n") for line in lines])
        moving = "".join(line for line, owner in zip(lines, owners, strict=True) if is_its(owner)).strip("\n")
        if moving:
            _append(to, source, moving)


def _append(settings: Settings, source: str, text: str) -> None:
    path = settings.places.notes / source
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with notes_lock(settings.places):
        old = read_text(path) or ""
        if text not in old:
            write_text(path, f"{old.rstrip(chr(10))}\n\n{text}\n" if old else f"{text}\n")
