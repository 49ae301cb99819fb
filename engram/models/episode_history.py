"""The history of episodes: what changed in each, when, why and by whom, so that a run can be undone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import Query

from engram.enums import Actor, Judgement
from engram.models import tables
from engram.models.episodes import ENUM_FIELDS, LIST_FIELDS, Episode
from engram.models.records import RecordReader
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader, Tx, Value

#: Action of each judgement on a memory, and of a judgement that was taken back.
JUDGEMENT_ACTIONS = {Judgement.HELPFUL: "helpful", Judgement.WRONG: "bad", Judgement.OUTDATED: "outdated"}
TAKE_BACK = "take back"
#: Actions by which somebody decided what a memory says or whether it is used.
BY_HAND_ACTIONS = ("edit", "pin", "unpin", *JUDGEMENT_ACTIONS.values(), TAKE_BACK, "recover")

#: Action of a memory that came from a file. It belongs to this database alone: no export has it.
IMPORT = "import"
#: Action of a memory that lost words, or entries that it rested on, because they were forgotten.
ERASE = "erase"


@dataclass(frozen=True, slots=True)
class Change:
    """One step of an episode's history."""

    at_ms: int
    action: str
    reason: str
    actor: Actor
    run_id: int | None
    #: The changed fields before and after. What a forgotten text stood in is left out.
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    episode_id: str = ""
    id: int = 0
    #: The step that this one took back; None for every other step.
    undoes: int | None = None

    @property
    def is_by_hand(self) -> bool:
        """True where somebody decided what the memory says or whether it is used."""
        return self.action in BY_HAND_ACTIONS


_CHANGES = RecordReader(
    Change, tables.History, readers={"actor": Actor.from_stored, "before": json.loads, "after": json.loads}
)


def add_history(
    tx: Tx,
    episode_id: str,
    action: str,
    reason: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    actor: Actor,
    run_id: int | None = None,
    at_ms: int | None = None,
    undoes: int | None = None,
) -> int:
    """Add a step to an episode's history, of now or of another time, and return its number. Only ``episode_changes``
    and its companions call this.
    """
    row: dict[str, Value] = {
        "episode_id": episode_id,
        "at_ms": tx.now_ms() if at_ms is None else at_ms,
        "action": action,
        "reason": reason,
        "actor": actor.value,
        "run_id": run_id,
        "before": json.dumps(before, ensure_ascii=False),
        "after": json.dumps(after, ensure_ascii=False),
        "undoes": undoes,
    }
    return tx.insert_row(tables.History, row)


def add_first_steps(tx: Tx, made: Sequence[tuple[str, str, Mapping[str, Any]]], *, actor: Actor, action: str) -> None:
    """Begin the histories of many new episodes, each given by its id, a reason and its fields."""
    rows: list[dict[str, Value]] = [
        {
            "episode_id": episode_id,
            "at_ms": tx.now_ms(),
            "action": action,
            "reason": reason,
            "actor": actor.value,
            "before": "{}",
            "after": json.dumps(fields, ensure_ascii=False),
        }
        for episode_id, reason, fields in made
    ]
    tx.insert_many(tables.History, rows)


def history_of(store: Reader, episode_id: str) -> list[Change]:
    """Return an episode's history, the oldest step first."""
    return store.fetch_records(_CHANGES, _history_of_episode(episode_id))


def changes_by_row(store: Reader, row_ids: Sequence[int]) -> list[Change]:
    """Return the steps of these row ids, for those that exist."""
    chosen = in_json_list(tables.History.id, json.dumps(list(row_ids)))
    return store.fetch_records(_CHANGES, _CHANGES.select().where(chosen))


def changes_of_run(store: Reader, run_id: int) -> list[Change]:
    """Return what a run changed, in order."""
    history = tables.History
    return store.fetch_records(_CHANGES, _CHANGES.select().where(history.run_id == run_id).order_by(history.id))


def standing_steps(history: Sequence[Change]) -> list[Change]:
    """Return the steps of a history, the oldest first, that no later step took back."""
    taken_back: set[int] = set()
    standing = []
    for step in reversed(history):
        if step.id in taken_back:
            continue
        standing.append(step)
        if step.undoes is not None:
            taken_back.add(step.undoes)
    return standing[::-1]


def drop_history(tx: Tx, episode_id: str) -> None:
    """Delete a memory's history, because it quotes what was forgotten."""
    tx.run(tables.History.delete().where(tables.History.episode_id == episode_id))


@prepared
def _history_of_episode(episode_id: str) -> Query:
    history = tables.History
    return _CHANGES.select().where(history.episode_id == episode_id).order_by(history.id)


#: The fields of an episode that history records, in their order.
_RECORDED_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Episode)
    if field.name not in {"id", "revision", "updated_at_ms", "accessed_at_ms", "access_count", "project"}
)


def snapshot(episode: Episode) -> dict[str, Any]:
    """Return the fields of an episode that history records."""
    fields = {name: getattr(episode, name) for name in _RECORDED_FIELDS}
    return fields | {name: list(fields[name]) for name in LIST_FIELDS}


def fields_of_snapshot(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of an episode from what ``snapshot`` recorded of it, after it was stored as JSON."""
    fields: dict[str, Any] = {}
    for name, value in kept.items():
        if name in ENUM_FIELDS:
            fields[name] = ENUM_FIELDS[name].from_stored(value)
        elif name in LIST_FIELDS:
            fields[name] = tuple(value)
        else:
            fields[name] = value
    return fields
