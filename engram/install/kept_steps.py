"""Steps that a later installation keeps although nothing plans them any more: what they removed stays removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engram.install.actions import action_from_json
from engram.install.changes import BlockEdit, FileChange, JsonEdit, JsonEntry, Step
from engram.install.journal import StepRecord


def change_to_json(change: FileChange) -> dict[str, Any]:
    """The change as it stands in the journal, without contents and tables, which are planned anew each time."""
    kind = "json" if isinstance(change.edit, JsonEdit) else "block" if isinstance(change.edit, BlockEdit) else ""
    return {
        "path": str(change.path),
        "kind": kind,
        "edit": asdict(change.edit) if kind and change.edit is not None else None,
        "is_removal": change.is_removal,
    }


def change_from_json(stored: Mapping[str, Any]) -> FileChange:
    """The edit or removal that was stored."""
    edit: JsonEdit | BlockEdit | None = None
    if stored["kind"] == "json":
        edit = JsonEdit(**{name: tuple(map(_entry, entries)) for name, entries in stored["edit"].items()})
    elif stored["kind"] == "block":
        edit = BlockEdit(**stored["edit"])
    return FileChange(Path(stored["path"]), edit=edit)


def with_former(step: Step, former: StepRecord | None) -> Step:
    """The step, and what an earlier installation did under the same name."""
    if former is None:
        return step
    changes = [change_from_json(stored) for stored in former.changes if stored["edit"] or stored["is_removal"]]
    return Step(
        name=step.name,
        summary=former.summary if step.is_empty else step.summary,
        changes=_union(changes, step.changes),
        before=_union([action_from_json(stored) for stored in former.before], step.before),
        after=_union([action_from_json(stored) for stored in former.after], step.after),
        notes=step.notes,
    )


def first_actions(former: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The actions to store: of the same action, the first one knows how the machine was before Engram."""
    known = {_identity(action) for action in former}
    return [*map(dict, former), *(dict(action) for action in new if _identity(action) not in known)]


def _identity(action: Mapping[str, Any]) -> str:
    """What an action is about, without what it found (was it running?)."""
    facts = {name: value for name, value in action["fields"].items() if not isinstance(value, bool)}
    return f"{action['kind']} {sorted(facts.items())}"


def _entry(stored: Mapping[str, Any]) -> JsonEntry:
    return JsonEntry(**{**stored, "path": tuple(stored["path"])})


def _union(first: Sequence[Any], second: Sequence[Any]) -> tuple[Any, ...]:
    merged: list[Any] = []
    for part in (*first, *second):
        if part not in merged:
            merged.append(part)
    return tuple(merged)
