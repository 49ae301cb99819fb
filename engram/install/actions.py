"""The kinds of action that an installation can store and take back later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from engram.earlier.actions import BootOut, EndProcess, SetDatabaseAside
from engram.errors import InstallError
from engram.install.changes import Action
from engram.services.plan import StartServices, StopServices

#: Every class of an action; its ``kind`` stands in the journal.
ACTIONS: tuple[type[Any], ...] = (BootOut, EndProcess, SetDatabaseAside, StartServices, StopServices)


def action_to_json(action: Action) -> dict[str, Any]:
    """The action as it stands in the journal."""
    if not is_dataclass(action) or isinstance(action, type):
        raise TypeError(f"{action!r} is not a dataclass")
    return {"kind": action.kind, "fields": asdict(action)}


def action_from_json(stored: Mapping[str, Any]) -> Action:
    """The action that was stored. Fields that this version does not know are dropped.

    Raises:
        InstallError: no such kind; another version of Engram stored it.
    """
    for known in ACTIONS:
        if known.kind == stored["kind"]:
            names = {field.name for field in fields(known)}
            values = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in stored["fields"].items()
                if name in names
            }
            action: Action = known(**values)
            return action
    raise InstallError(
        f"this version of Engram does not know the action {stored['kind']!r}; use the version that installed"
    )
