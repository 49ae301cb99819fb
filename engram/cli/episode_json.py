"""One memory as JSON, and back: what export writes and import reads, the same keys everywhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engram.errors import BadRequest
from engram.models import episodes
from engram.models.episodes import ENUM_FIELDS, Episode, Evidence
from engram.models.store import Store
from engram.models.turns import EvidencePlace, places_of

#: Field of an episode → key in JSON, where they differ.
_NAMES = {"episode_id": "id", "session_id": "session", "is_pinned": "pinned", "is_lowered": "lowered"}
#: Fields that mean something in this one database only.
_LOCAL = {"id", "project_id"}


def episode_to_json(store: Store, episode: Episode) -> dict[str, Any]:
    """Every field of a memory that means something elsewhere; ``evidence`` is the list of entry uuids."""
    found: dict[str, Any] = {
        _NAMES.get(one.name, one.name): getattr(episode, one.name)
        for one in dataclasses.fields(Episode)
        if one.name not in _LOCAL
    }
    rests_on = episodes.evidence_of(store, episode.id)
    found["facts"], found["entities"] = list(episode.facts), list(episode.entities)
    found["evidence"] = [one.uuid for one in rests_on if one.uuid]
    found["evidence_sessions"] = list(dict.fromkeys(one.session_id for one in rests_on if one.session_id))
    return found


def episode_from_json(line: Mapping[str, Any]) -> tuple[Episode, list[Evidence]]:
    """A memory as ``episode_to_json`` wrote it; its project is only a name.

    Raises:
        BadRequest: something that a memory needs is missing or of the wrong kind.
    """
    values: dict[str, Any] = {}
    for one in dataclasses.fields(Episode):
        key = _NAMES.get(one.name, one.name)
        if one.name not in _LOCAL and line.get(key) is not None:
            values[one.name] = _checked(one, line[key])
    for needed in ("episode_id", "kind", "summary", "content"):
        if not values.get(needed) and needed != "content":
            raise BadRequest(f"a memory needs {_NAMES.get(needed, needed)!r}")
    values.setdefault("content", "")
    if not episodes.is_episode_id(values["episode_id"]):
        raise BadRequest(f"{values['episode_id'][:40]!r} is no id of a memory")
    sessions = [str(one) for one in line.get("evidence_sessions") or [] if isinstance(one, str)]
    session = sessions[0] if sessions else values.get("session_id", "")
    return Episode(**values), [Evidence(str(one), session) for one in line.get("evidence") or []]


def _checked(field: dataclasses.Field[Any], value: Any) -> Any:
    """A value of the field's own kind. Raises BadRequest."""
    default = field.default
    if field.name in ENUM_FIELDS:
        return ENUM_FIELDS[field.name].parse(value)
    if field.name in ("facts", "entities"):
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
    elif isinstance(default, bool):
        if isinstance(value, bool):
            return value
    elif field.name.endswith("_ms") or isinstance(default, int):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif isinstance(default, float):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, str):
        return value
    raise BadRequest(f"{_NAMES.get(field.name, field.name)} = {str(value)[:60]!r} cannot be used")


def evidence_places(store: Store, episode: Episode) -> list[EvidencePlace]:
    """Transcript, line and uuid of everything that a memory rests on."""
    return places_of(store, [one.uuid for one in episodes.evidence_of(store, episode.id) if one.uuid])
