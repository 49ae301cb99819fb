"""The history of episodes: what changed in each, when and why, so that a run can be taken back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engram.models.episodes import ENUM_FIELDS, Episode
from engram.models.transaction import Reader, Tx, Value


@dataclass(frozen=True, slots=True)
class Change:
    """One step of an episode's history."""

    at_ms: int
    action: str
    reason: str
    run_id: int | None
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    episode_id: str = ""
    id: int = 0


def add_history(
    tx: Tx, episode_id: str, action: str, reason: str, before: Mapping[str, Any], after: Mapping[str, Any], *,
    run_id: int | None = None,
) -> None:  # fmt: skip
    """Keep one step of an episode's history."""
    tx.run(
        "INSERT INTO history (episode_id, at_ms, action, reason, run_id, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (episode_id, tx.now_ms(), action, reason, run_id,
         json.dumps(before, ensure_ascii=False), json.dumps(after, ensure_ascii=False)),
    )  # fmt: skip


def history_of(store: Reader, episode_id: str) -> list[Change]:
    """An episode's history, the oldest step first."""
    return _changes(store, "episode_id = ?", episode_id)


def changes_of_run(store: Reader, run_id: int) -> list[Change]:
    """What a run changed, in order."""
    return _changes(store, "run_id = ?", run_id)


def _changes(store: Reader, where: str, value: Value) -> list[Change]:
    columns = "at_ms, action, reason, run_id, before, after, episode_id, id"
    rows = store.rows(f"SELECT {columns} FROM history WHERE {where} ORDER BY id", (value,))
    return [
        Change(row[0], row[1], row[2], row[3], json.loads(row[4]), json.loads(row[5]), row[6], row[7]) for row in rows
    ]


def snapshot(episode: Episode) -> dict[str, Any]:
    """What history keeps of an episode."""
    left_out = {"id", "revision", "updated_at_ms", "accessed_at_ms", "access_count", "project"}
    facts = {k: v for k, v in dataclasses.asdict(episode).items() if k not in left_out}
    return facts | {"facts": list(episode.facts), "entities": list(episode.entities)}


def fields_of_snapshot(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of an episode from what ``snapshot`` kept of it, after it was stored as JSON."""
    fields: dict[str, Any] = {}
    for name, value in kept.items():
        if name in ENUM_FIELDS:
            fields[name] = ENUM_FIELDS[name].from_stored(value)
        elif name in ("facts", "entities"):
            fields[name] = tuple(value)
        else:
            fields[name] = value
    return fields
