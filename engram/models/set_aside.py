"""Databases of Engram that were set aside beside memory.db: which there are, and what must not stay in them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path

import peewee

from engram.errors import BrokenDatabase, EngramError
from engram.models.file_checks import has_own_tables
from engram.models.replacement import UNCLEAN_NAME
from engram.models.soundness import UNREADABLE
from engram.models.tombstone_transfer import Tombstone, delete_named_in_copy, read_tombstones
from engram.models.transaction import Reader

logger = logging.getLogger(__name__)

#: Names of databases of Engram that were set aside, and the name of another program's.
SET_ASIDE_PATTERNS = ("memory.broken*.db", "memory.replaced*.db")
FOREIGN_PATTERN = "memory.v2*.db"


def set_aside_files(folder: Path, driver: str) -> list[Path]:
    """Databases of Engram that were set aside in a folder; one named as another program's counts if it is Engram's."""
    found = {path for pattern in SET_ASIDE_PATTERNS for path in folder.glob(pattern) if is_file(path)}
    for path in folder.glob(FOREIGN_PATTERN):
        with contextlib.suppress(BrokenDatabase):
            if is_file(path) and has_own_tables(path, driver):
                found.add(path)
    return sorted(found)


def foreign_files(folder: Path, driver: str) -> list[Path]:
    """Databases of other programs, such as the earlier Engram, that were set aside in a folder. Only read them."""
    own = set_aside_files(folder, driver)
    return sorted(path for path in folder.glob(FOREIGN_PATTERN) if is_file(path) and path not in own)


def clean_set_aside(path: Path, driver: str, tombstones: Sequence[Tombstone]) -> None:
    """Delete what tombstones name from the databases beside memory.db; a damaged one stays as it is."""
    for aside in set_aside_files(path.parent, driver):
        try:
            cleaned = delete_named_in_copy(aside, driver, tombstones)
        except (EngramError, *UNREADABLE, peewee.IntegrityError) as error:
            logger.warning("action=clean_set_aside path=%s reason=%s", aside.name, error)
        else:
            logger.info("action=clean_set_aside path=%s cleaned=%d", aside.name, cleaned)
    path.with_name(UNCLEAN_NAME).unlink(missing_ok=True)


def clean_after_swap(store: Reader) -> None:
    """Clean what was set aside by a swap that was killed before it came to that."""
    if store.path.with_name(UNCLEAN_NAME).exists():
        clean_set_aside(store.path, store.driver, read_tombstones(store))


def is_file(path: Path) -> bool:
    """True for a regular file that is no link."""
    return path.is_file() and not path.is_symlink()
