"""One run of the installer: its report, the actions that it can undo, and the steps that a later run keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from engram.errors import EngramError, InstallError
from engram.paths import Home
from engram.setup.edits.install_steps import Action, FileChange, JsonEdit, JsonEntry, Step
from engram.setup.edits.journal import Journal, Phase, StepRecord, save_journal
from engram.setup.old_engram.retire import BootOut, EndProcess, SetDatabaseAside
from engram.setup.services.service_plan import StartServices, StopServices
from engram.system.atomic import explain_error

# -- The kinds of action that an installation can store and undo later.

#: Every class of action; the journal records its ``kind``.
ACTIONS: tuple[type[Any], ...] = (BootOut, EndProcess, SetDatabaseAside, StartServices, StopServices)


def action_to_json(action: Action) -> dict[str, Any]:
    if not is_dataclass(action) or isinstance(action, type):
        raise TypeError(f"{action!r} is not a dataclass")
    return {"kind": action.kind, "fields": asdict(action)}


def action_from_json(stored: Mapping[str, Any]) -> Action:
    """Return the action that was stored, without fields that this version does not have.

    Raises:
        InstallError: its kind is unknown, because another version of Engram stored it.
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
    raise InstallError(f"this version of Engram has no action {stored['kind']!r}; use the version that was installed")


# -- One run of the installer: what it reports, and the actions that it undoes.

#: Called before each step.
BeforeStep = Callable[[Step], None]


@dataclass(slots=True)
class Outcome:
    """What an installation or its removal did."""

    #: Files that were written or deleted.
    changed: list[str] = field(default_factory=list)
    #: Lines that the user should see, such as about files that others changed.
    notes: list[str] = field(default_factory=list)
    #: Parts that could not be undone.
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """One run, under the installer's lock."""

    home: Home
    tell: BeforeStep
    outcome: Outcome = field(default_factory=Outcome)
    journal: Journal = field(default_factory=lambda: Journal(Phase.INSTALLED))
    #: Called after all steps, before the installation counts as done; this may fail.
    check: Callable[[], None] = lambda: None
    #: Called during an undo, while nothing runs, before the previous processes are started again.
    put_back: Callable[[], None] = lambda: None

    def save(self) -> None:
        """Write the journal. Raises OSError."""
        save_journal(self.home, self.journal)

    def note(self, line: str) -> None:
        """Keep a line for the user; "" adds nothing."""
        if line:
            self.outcome.notes.append(line)


def undo_actions(run: Run, stored: Sequence[Mapping[str, Any]], problems: list[str] | None = None) -> None:
    """Undo stored actions, last first; failures become lines in ``problems`` (default: the outcome's)."""
    for action in reversed(stored):
        with collecting(run.outcome.problems if problems is None else problems):
            action_from_json(action).undo()


@contextlib.contextmanager
def collecting(problems: list[str]) -> Iterator[None]:
    """Keep an expected failure as a line, and continue."""
    try:
        yield
    except OSError as error:
        problems.append(explain_error(error))
    except EngramError as error:
        problems.append(str(error))


# -- Steps that a later installation keeps although they are no longer planned, so that what they removed is not
# restored.


def change_to_json(change: FileChange) -> dict[str, Any]:
    """Return the change as stored in the journal, without contents and tables, which are planned again each time."""
    edit = change.edit if isinstance(change.edit, JsonEdit) else None
    return {
        "path": str(change.path),
        "kind": "" if edit is None else "json",
        "edit": None if edit is None else asdict(edit),
        "is_removal": change.is_removal,
    }


def _change_from_json(stored: Mapping[str, Any]) -> FileChange:
    entries = {
        name: tuple(JsonEntry(**{**entry, "path": tuple(entry["path"])}) for entry in listed)
        for name, listed in (stored["edit"] or {}).items()
    }
    return FileChange(Path(stored["path"]), edit=JsonEdit(**entries) if stored["edit"] else None)


def with_former(step: Step, former: StepRecord | None) -> Step:
    """Return the step, together with what an earlier installation did under the same name."""
    if former is None:
        return step
    changes = [_change_from_json(stored) for stored in former.changes if stored["edit"] or stored["is_removal"]]
    return Step(
        name=step.name,
        summary=former.summary if step.is_empty else step.summary,
        changes=_union(changes, step.changes),
        before=_union([action_from_json(stored) for stored in former.before], step.before),
        after=_union([action_from_json(stored) for stored in former.after], step.after),
        notes=step.notes,
    )


def first_actions(former: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the actions to store. Of equal ones, keep the first, which records the machine's state before Engram."""
    known = {_identity(action) for action in former}
    return [*map(dict, former), *(dict(action) for action in new if _identity(action) not in known)]


def _identity(action: Mapping[str, Any]) -> str:
    """Return what identifies an action, without the state that it found (was it running?)."""
    facts = {name: value for name, value in action["fields"].items() if not isinstance(value, bool)}
    return f"{action['kind']} {sorted(facts.items())}"


def _union(first: Sequence[Any], second: Sequence[Any]) -> tuple[Any, ...]:
    merged: list[Any] = []
    for part in (*first, *second):
        if part not in merged:
            merged.append(part)
    return tuple(merged)
