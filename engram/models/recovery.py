"""What people did to memories by hand, carried from a damaged or older memory.db into the one in use."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import locked_folder, read_regular
from engram.errors import BadRequest, EngramError
from engram.models import episode_changes, episodes, sessions
from engram.models.backup import drop_database
from engram.models.episodes import Episode
from engram.models.pauses import carry_pauses
from engram.models.store import Store, move_aside
from engram.models.tombstones import is_episode_gone, is_slot_gone

logger = logging.getLogger(__name__)

#: Saved, pinned, lowered or edited by a person or an agent: no reading of transcripts brings that back.
_BY_HAND = (
    "e.source = 'manual' OR e.is_pinned OR e.is_lowered "
    "OR e.episode_id IN (SELECT episode_id FROM history WHERE reason = 'by hand')"
)
#: Forgotten things of every kind, and pauses.
_TOMBSTONES = "SELECT kind, key, at_ms FROM tombstone"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was carried over."""

    memories: int = 0
    #: Marks of what was forgotten.
    tombstones: int = 0
    #: Memories that could not be read.
    lost: int = 0

    def plus(self, other: Recovered) -> Recovered:
        """The sum of two."""
        return Recovered(self.memories + other.memories, self.tombstones + other.tombstones, self.lost + other.lost)


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    #: The backup that memory.db is now a copy of.
    source: Path
    #: Where the memory.db of before went; None where there was none.
    aside: Path | None
    memories: int
    turns: int
    #: What was carried over from the memory.db of before.
    carried: Recovered


def recover_by_hand(store: Store, sources: Sequence[Path]) -> Recovered:
    """Carry over what was saved, pinned, lowered, edited or forgotten, from the first source that has it.

    Sources, the newest first, may be damaged: what cannot be read is passed over. They are only read. What was
    forgotten stays so, and what was said in a pause stays unread.
    """
    found = Recovered()
    for number, path in enumerate(sources):
        source = Store(path, driver=store.driver, clock=store.clock)
        try:
            found = found.plus(_carry_tombstones(store, source, is_newer=number == 0)).plus(
                _carry_memories(store, source)
            )
        except EngramError as error:
            logger.warning("action=recover source=%s reason=%s", path.name, error)
        finally:
            source.close()
    return found


def _carry_tombstones(store: Store, source: Store, *, is_newer: bool) -> Recovered:
    rows = [(str(kind), bytes(key), int(at_ms)) for kind, key, at_ms in source.rows(_TOMBSTONES)]
    before = int(store.value("SELECT count(*) FROM tombstone"))
    with store.writing():
        store.run_many("INSERT OR IGNORE INTO tombstone VALUES (?, ?, ?)", rows)
        for scope, until_ms in source.rows("SELECT scope, until_ms FROM pause"):
            store.run("INSERT OR IGNORE INTO pause VALUES (?, ?)", (str(scope), int(until_ms)))
        carry_pauses(store, source, is_newer=is_newer)
    return Recovered(tombstones=int(store.value("SELECT count(*) FROM tombstone")) - before)


def _carry_memories(store: Store, source: Store) -> Recovered:
    memories = lost = 0
    for (row_id,) in source.rows(f"SELECT e.id FROM episode e WHERE {_BY_HAND} ORDER BY e.id"):
        try:
            for one in episodes.select_episodes(source, "e.id = ?", (int(row_id),)):
                memories += _carry(store, source, one)
        except (EngramError, ValueError, TypeError) as error:
            logger.warning("action=recover row=%s reason=%s", row_id, error)
            lost += 1
    return Recovered(memories, 0, lost)


def _carry(store: Store, source: Store, one: Episode) -> bool:
    """Add one memory, unless it is there or was forgotten; True where it was added."""
    if not episodes.is_episode_id(one.episode_id) or _is_known(store, one):
        return False
    project = None if one.project_id is None else sessions.project_by_id(source, one.project_id)
    session = sessions.find_session(source, one.session_id) if one.session_id else None
    evidence = [dataclasses.replace(e, turn_id=None) for e in episodes.evidence_of(source, one.id)]
    with store.writing():
        place = (
            None if project is None else sessions.ensure_project(store, project.identity, project.name, project.root)
        )
        if session is not None:
            sessions.ensure_session(
                store, session.session_id, agent=session.agent, project_id=None if place is None else place.id,
                is_global=session.is_global, cwd=session.cwd, at_ms=session.first_at_ms,
            )  # fmt: skip
        made = dataclasses.replace(one, id=0, project_id=None if place is None else place.id)
        episode_changes.add_episode(store, made, evidence, action="recover", reason="by hand")
    return True


def _is_known(store: Store, one: Episode) -> bool:
    if is_episode_gone(store, one.episode_id) or episodes.find_episode(store, one.episode_id) is not None:
        return True
    if one.slot is None:
        return False
    return is_slot_gone(store, one.slot) or episodes.episode_by_slot(store, one.slot) is not None


def restore_backup(path: Path, backup: Path, *, driver: str) -> Restored:
    """Put a copy of ``backup`` in the place of the memory.db at ``path``; call it while nothing else runs.

    The memory.db of before is set aside as ``memory.replaced.db``. What was saved, pinned, edited or forgotten since
    is carried over as far as it can be read; transcripts are read on from where the backup stood.

    Raises:
        BadRequest: the file is no sound backup; nothing was changed.
        StoreError: the disk is full, or SQLite fails; memory.db is the old one, or set aside beside it.
    """
    half = path.with_name(f".{path.name}.restore.tmp")
    drop_database(half)
    try:
        _copy_file(backup, half)
        with locked_folder(path.parent):
            aside = move_aside(path, "memory.replaced.db") if os.path.lexists(path) else None
            os.replace(half, path)
    finally:
        drop_database(half)
    with Store(path, driver=driver) as store:
        carried = Recovered() if aside is None or not aside.is_file() else recover_by_hand(store, [aside])
        memories = int(store.value("SELECT count(*) FROM episode"))
        turns = int(store.value("SELECT count(*) FROM turn"))
    return Restored(backup, aside, memories, turns, carried)


def _copy_file(backup: Path, half: Path) -> None:
    """Copy a backup and check the copy. Raises BadRequest."""
    if not (read_regular(backup, 16) or b"").startswith(b"SQLite format 3\0"):
        raise BadRequest(f"{backup} is no backup of memory.db")
    try:
        shutil.copyfile(backup, half, follow_symlinks=False)
        os.chmod(half, 0o600)
    except OSError as error:
        raise BadRequest(f"{backup} cannot be copied: {error.strerror or error}") from error
    copy = Store(half)
    try:
        copy.open()
        damage = copy.find_damage()
        copy.checkpoint("TRUNCATE")
    except EngramError as error:
        damage = str(error)
    finally:
        copy.close()
    if damage:
        raise BadRequest(f"{backup} is no sound backup of memory.db: {damage}")
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(OSError):
            half.with_name(half.name + suffix).unlink()
