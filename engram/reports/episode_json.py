"""One memory as JSON and back: the keys that export, import and every ``--json`` share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engram.errors import BadRequest
from engram.models import episodes
from engram.models.episodes import ENUM_FIELDS, LIST_FIELDS, Episode, Evidence
from engram.models.store import Store

#: Field of an episode → key in JSON, where they differ.
_NAMES = {"episode_id": "id", "session_id": "session", "is_pinned": "pinned", "is_lowered": "lowered"}
#: Fields that have a meaning in this database only.
_LOCAL = {"id", "project_id"}


def episode_to_json(store: Store, episode: Episode) -> dict[str, Any]:
    """Every field of a memory that has a meaning elsewhere. ``evidence`` is the list of entry uuids."""
    values: dict[str, Any] = {
        _NAMES.get(known.name, known.name): getattr(episode, known.name)
        for known in dataclasses.fields(Episode)
        if known.name not in _LOCAL
    }
    rests_on = episodes.evidence_of(store, episode.id)
    values |= {name: list(values[name]) for name in LIST_FIELDS}
    values["evidence"] = [entry.uuid for entry in rests_on if entry.uuid]
    values["evidence_sessions"] = list(dict.fromkeys(entry.session_id for entry in rests_on if entry.session_id))
    return values


def episode_from_json(line: Mapping[str, Any]) -> tuple[Episode, list[Evidence]]:
    """The memory that ``episode_to_json`` wrote. Its project is a name only.

    Raises:
        BadRequest: a required field is missing, or a value has the wrong type.
    """
    values: dict[str, Any] = {}
    for known in dataclasses.fields(Episode):
        key = _NAMES.get(known.name, known.name)
        if known.name not in _LOCAL and line.get(key) is not None:
            values[known.name] = _checked(known, line[key])
    for needed in ("episode_id", "kind", "summary", "content"):
        if not values.get(needed) and needed != "content":
            raise BadRequest(f"a memory needs {_NAMES.get(needed, needed)!r}")
    values.setdefault("content", "")
    if not episodes.is_episode_id(values["episode_id"]):
        raise BadRequest(f"{values['episode_id'][:40]!r} is not a memory's id")
    sessions = [str(session_id) for session_id in line.get("evidence_sessions") or [] if isinstance(session_id, str)]
    session = sessions[0] if sessions else values.get("session_id", "")
    return Episode(**values), [Evidence(str(uuid), session) for uuid in line.get("evidence") or []]


def _checked(field: dataclasses.Field[Any], value: Any) -> Any:
    """The value, if it has the field's type. Raises BadRequest."""
    default = field.default
    if field.name in ENUM_FIELDS:
        return ENUM_FIELDS[field.name].parse(value)
    if field.name in LIST_FIELDS:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
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
    raise BadRequest(f"{_NAMES.get(field.name, field.name)} = {str(value)[:60]!r} can't be used")
