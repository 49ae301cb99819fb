"""The commits that turns made, for whoever is shown what was said in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from peewee import Query

from engram.models import tables
from engram.models.packed_actions import unpack_facts
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader


def last_commits_of(store: Reader, turn_ids: Iterable[int]) -> Mapping[int, str]:
    """Turn id → hash of the last commit that the turn made; turns without one are left out."""
    commits = {}
    for row in store.fetch(_actions_of(json.dumps(sorted(set(turn_ids))))):
        made = [str(fact["commit"]) for fact in unpack_facts(row.actions) if fact.get("commit")]
        if made:
            # It is stored as "hash subject".
            commits[row.id] = made[-1].partition(" ")[0]
    return commits


@prepared
def _actions_of(turn_ids: str) -> Query:
    return tables.Turn.select(tables.Turn.id, tables.Turn.actions).where(in_json_list(tables.Turn.id, turn_ids))
