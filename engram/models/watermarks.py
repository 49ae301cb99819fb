"""How far a consolidation has looked, so that the next one looks only at what came or changed since."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from peewee import Query, Select, fn

from engram.models import tables
from engram.models.episode_changes import note_vetoed
from engram.models.meta import get_meta, put_meta
from engram.models.statement import prepared
from engram.models.transaction import Reader, Tx

_LOOKED, _HEADS, _UNDONE = "consolidated_to", "git_heads", "undone"
#: Changes taken back that are remembered at most; the oldest go first.
MAX_UNDONE = 5_000


@dataclass(frozen=True, slots=True)
class Watermark:
    """A point in the life of the memories. Both numbers rise with every change and are never given out twice."""

    #: The latest row of the history.
    history_id: int
    #: The latest vector of a memory: memories are compared once they have one.
    vector_seq: int


def current_watermark(store: Reader) -> Watermark:
    """Where the memories are now."""
    row = store.fetch_first(_latest_numbers())
    return Watermark(history_id=row.history_id, vector_seq=row.vector_seq)


def load_watermark(store: Reader) -> Watermark | None:
    """Up to where everything has been looked at; None where nothing has."""
    stored = get_meta(store, _LOOKED)
    return None if stored is None else Watermark(*json.loads(stored))


def save_watermark(tx: Tx, watermark: Watermark) -> None:
    """Note that everything up to a watermark has been looked at."""
    put_meta(tx, _LOOKED, json.dumps([watermark.history_id, watermark.vector_seq]))


def changed_since(store: Reader, watermark: Watermark) -> frozenset[int]:
    """Row ids of memories that came, changed or got a vector after a watermark."""
    return frozenset(store.fetch_values(_changed_since(watermark.history_id, watermark.vector_seq)))


def load_heads(store: Reader) -> dict[str, str]:
    """Stable id of a project → what git and its memories were like when they were last compared."""
    stored = get_meta(store, _HEADS)
    return {} if stored is None else {str(name): str(value) for name, value in json.loads(stored).items()}


def save_heads(tx: Tx, heads: Mapping[str, str]) -> None:
    """Note what git and the memories of projects were like."""
    put_meta(tx, _HEADS, json.dumps(dict(heads), sort_keys=True))


def undone(store: Reader) -> frozenset[tuple[str, str]]:
    """``(action, id of the memory)`` of changes that the user took back: they are not made again."""
    return frozenset(_load_undone(store))


def note_undone(tx: Tx, changes: Sequence[tuple[str, str]]) -> None:
    """Remember changes that the user took back."""
    _keep_undone(tx, changes)
    note_vetoed(tx, changes)


def take_vetoes(tx: Tx, episode_id: str, actions: Sequence[str]) -> None:
    """Remember changes that the user took back on another machine."""
    _keep_undone(tx, [(action, episode_id) for action in actions])


def _keep_undone(tx: Tx, changes: Sequence[tuple[str, str]]) -> None:
    kept = list(dict.fromkeys([*_load_undone(tx), *changes]))[-MAX_UNDONE:]
    put_meta(tx, _UNDONE, json.dumps(kept))


def _load_undone(store: Reader) -> list[tuple[str, str]]:
    stored = get_meta(store, _UNDONE)
    return [] if stored is None else [(str(action), str(episode_id)) for action, episode_id in json.loads(stored)]


@prepared
def _latest_numbers() -> Query:
    latest_vector = tables.Vector.select(fn.MAX(tables.Vector.seq)).where(tables.Vector.owner == "e")
    latest_history = tables.History.select(fn.MAX(tables.History.id))
    return Select(
        columns=[
            fn.COALESCE(latest_history, 0).alias("history_id"),
            fn.COALESCE(latest_vector, 0).alias("vector_seq"),
        ]
    )


@prepared
def _changed_since(history_id: int, vector_seq: int) -> Query:
    changed = (
        tables.Episode.select(tables.Episode.id)
        .join(tables.History, on=tables.History.episode_id == tables.Episode.episode_id)
        .where(tables.History.id > history_id)
    )
    embedded = tables.Vector.select(tables.Vector.owner_id).where(
        (tables.Vector.owner == "e") & (tables.Vector.seq > vector_seq)
    )
    return changed | embedded
