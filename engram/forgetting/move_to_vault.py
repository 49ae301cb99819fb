"""Move a project into a vault, where it is hidden from everything outside, or move it back out."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from engram.enums import Actor
from engram.errors import BadRequest
from engram.forgetting.forget_files import all_notes
from engram.forgetting.forget_project import forget_project
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_project import ProjectContents, contents_of_project
from engram.models.memories.memory_records import find_memory
from engram.models.open_memory import open_memory
from engram.models.projects.notes import Owner
from engram.models.projects.project_folders import identities_of_project
from engram.models.projects.projects import ProjectRow, find_project_of_identity, names_of_project
from engram.models.rescue import copy_project
from engram.models.sessions.reading_progress import note_kept_out
from engram.notes.daily_log import notes_lock, read_text, write_text
from engram.notes.note_index import owners_of_lines, source_name
from engram.settings import Settings
from engram.system.atomic import write_atomic
from engram.system.failpoint import reach
from engram.transcripts.registry import discover
from engram.vaults import Vault, free_folder, own_vault, vault_of_identity, write_vault

logger = logging.getLogger(__name__)

#: Name of the file that keeps the tombstones from before a move into a vault while the move is in progress.
_TOMBSTONES_NAME = ".forgotten-before.json"


@dataclass(frozen=True, slots=True)
class Moved:
    name: str
    #: The vault's memory folder.
    folder: Path
    sessions: int
    memories: int


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
    reach("vault.begun")
    vault.home.prepare()
    with open_memory(vault.home.memory_db, driver=store.driver, is_made=True) as inner:
        copy_project.take_over_salt(inner, store)
        copy_project.copy_project(inner, store.path, project)
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
    for source in discover(settings):
        if source.session_id in contents.session_ids:
            note_kept_out(store, source)
    seal(vault)
    logger.info("action=vault project=%d memories=%d", project.id, moved.memories)
    return moved


def _moved(vault: Vault, name: str, contents: ProjectContents) -> Moved:
    return Moved(name, vault.folder, len(contents.session_ids), len(contents.memories) + len(contents.released))


def seal(vault: Vault) -> None:
    """Record that nothing from a vault's project is left outside the vault."""
    write_vault(dataclasses.replace(vault, is_sealed=True))
    (vault.folder / _TOMBSTONES_NAME).unlink(missing_ok=True)


def _tombstones_before(store: Store, vault: Vault) -> dict[tuple[str, bytes], int]:
    """Return the tombstones from before the move began, even if the move has been interrupted since."""
    file = vault.folder / _TOMBSTONES_NAME
    if not file.exists():
        known = sorted(copy_project.tombstone_times(store).items())
        write_atomic(file, json.dumps([[kind, key.hex(), at_ms] for (kind, key), at_ms in known]).encode())
    return {(kind, bytes.fromhex(key)): at_ms for kind, key, at_ms in json.loads(file.read_bytes())}


def move_out_of_vault(store: Store, settings: Settings, vault: Vault) -> Moved:
    """Move everything in a vault back into the enclosing memory folder, and delete the vault. Raises StoreError.

    To continue an interrupted move, call this again.
    """
    inner_settings = dataclasses.replace(settings, home=vault.folder)
    with open_memory(vault.home.memory_db, driver=store.driver, is_made=True) as inner:
        project = next(
            (
                found
                for identity in sorted(vault.spellings)
                if (found := find_project_of_identity(inner, identity)) is not None
            ),
            None,
        )
        moved = Moved(vault.name, vault.folder, 0, 0)
        if project is not None:
            contents = contents_of_project(inner, project)
            moved = _moved(vault, vault.name, contents)
            inner.checkpoint("TRUNCATE")
            copy_project.copy_project(store, inner.path, project)
            _move_notes(inner, inner_settings, settings, project)
    reach("vault.returned")
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
