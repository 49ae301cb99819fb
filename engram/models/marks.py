"""How far a consolidation has looked, so that the next one looks only at what came or changed since."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engram.models.transaction import Reader, Tx

_LOOKED, _HEADS, _UNDONE = "consolidated_to", "git_heads", "undone"
#: Changes taken back that are remembered at most; the oldest go first.
MOST_UNDONE = 5_000


@dataclass(frozen=True, slots=True)
class Mark:
    """A point in the life of the memories. Both numbers rise with every change and never come twice."""

    #: The latest row of the history.
    history_id: int
    #: The latest vector: a memory is compared once it has one.
    vector_seq: int


def mark_now(store: Reader) -> Mark:
    """Where the memories are now."""
    found = store.row(
        "SELECT coalesce((SELECT max(id) FROM history), 0), coalesce((SELECT max(seq) FROM vector WHERE owner = 'e'), 0)"
    )
    assert found is not None
    return Mark(int(found[0]), int(found[1]))


def latest_change(store: Reader) -> int:
    """A number that differs once a memory came, changed or was forgotten by name; cheap."""
    return int(store.value("SELECT coalesce(max(id), 0) FROM history") or 0)


def kept_mark(store: Reader) -> Mark | None:
    """Up to where everything has been looked at; None where nothing has."""
    found = store.value("SELECT value FROM meta WHERE key = ?", (_LOOKED,))
    return None if found is None else Mark(*json.loads(found))


def keep_mark(tx: Tx, mark: Mark) -> None:
    """Note that everything up to a mark has been looked at."""
    _put(tx, _LOOKED, json.dumps([mark.history_id, mark.vector_seq]))


def changed_since(store: Reader, mark: Mark) -> frozenset[int]:
    """Row ids of memories that came, changed or got a vector after a mark."""
    rows = store.rows(
        "SELECT e.id FROM history h JOIN episode e ON e.episode_id = h.episode_id WHERE h.id > ? "
        "UNION SELECT owner_id FROM vector WHERE owner = 'e' AND seq > ?",
        (mark.history_id, mark.vector_seq),
    )
    return frozenset(int(row[0]) for row in rows)


def kept_heads(store: Reader) -> dict[str, str]:
    """Stable id of a project → what git and its memories were like when they were last compared."""
    found = store.value("SELECT value FROM meta WHERE key = ?", (_HEADS,))
    return {} if found is None else {str(name): str(value) for name, value in json.loads(found).items()}


def keep_heads(tx: Tx, heads: Mapping[str, str]) -> None:
    """Note what git and the memories of projects were like."""
    _put(tx, _HEADS, json.dumps(dict(heads), sort_keys=True))


def undone(store: Reader) -> frozenset[tuple[str, str]]:
    """``(action, id of the memory)`` of changes that the user took back: they are not made again."""
    return frozenset(_read_undone(store))


def note_undone(tx: Tx, changes: Sequence[tuple[str, str]]) -> None:
    """Remember changes that the user took back."""
    kept = list(dict.fromkeys([*_read_undone(tx), *changes]))[-MOST_UNDONE:]
    _put(tx, _UNDONE, json.dumps(kept))


def _read_undone(store: Reader) -> list[tuple[str, str]]:
    found = store.value("SELECT value FROM meta WHERE key = ?", (_UNDONE,))
    return [] if found is None else [(str(action), str(one)) for action, one in json.loads(found)]


def _put(tx: Tx, key: str, value: str) -> None:
    tx.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
