"""Word from whoever met damage in memory.db to the worker, which alone may set the file aside."""

from __future__ import annotations

import contextlib

from engram.errors import StoreError
from engram.models.store import Store
from engram.models.transaction import Reader
from engram.models.work import note_failure

_NOTE = "memory.db proved damaged; the worker starts again and checks it"


def note_damage(store: Store) -> None:
    """Leave word that memory.db proved damaged: a running worker stops, and its next start looks closely."""
    with contextlib.suppress(StoreError):
        note_failure(store, "memory", _NOTE)


def is_damage_noted(store: Reader) -> bool:
    """True where somebody met damage since the last close look."""
    return store.row("SELECT 1 FROM stage WHERE name = 'memory' AND last_error = ?", (_NOTE,)) is not None
