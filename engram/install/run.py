"""One run of the installer: its journal, what it reports, and the actions that it takes back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engram.causes import explain_error
from engram.errors import EngramError
from engram.install.actions import action_from_json
from engram.install.changes import Step
from engram.install.journal import Journal, Phase, save_journal
from engram.paths import Home

#: Called before each step.
BeforeStep = Callable[[Step], None]


def _nothing() -> None:
    return


@dataclass(slots=True)
class Outcome:
    """What an installation or its removal did."""

    #: Files that were written or deleted.
    changed: list[str] = field(default_factory=list)
    #: Lines that the user should know, such as files that others changed.
    notes: list[str] = field(default_factory=list)
    #: Parts that could not be taken back.
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """One run, under the installer's lock."""

    home: Home
    tell: BeforeStep
    outcome: Outcome = field(default_factory=Outcome)
    journal: Journal = field(default_factory=lambda: Journal(Phase.INSTALLED))
    #: Called after all steps, before the installation counts as done; it may fail.
    check: Callable[[], None] = _nothing
    #: Called in an undo, while nothing runs: before what ran before is started again.
    put_back: Callable[[], None] = _nothing

    def save(self) -> None:
        """Write the journal. Raises OSError."""
        save_journal(self.home, self.journal)

    def note(self, line: str) -> None:
        """Keep a line for the user; "" is none."""
        if line:
            self.outcome.notes.append(line)


def undo_actions(run: Run, stored: Sequence[Mapping[str, Any]], problems: list[str] | None = None) -> None:
    """Take stored actions back, the last first; a failure becomes a line in ``problems`` (default: the outcome's)."""
    for action in reversed(stored):
        with collecting(run.outcome.problems if problems is None else problems):
            action_from_json(action).undo()


@contextlib.contextmanager
def collecting(problems: list[str]) -> Iterator[None]:
    """Keep an expected failure as a line and go on."""
    try:
        yield
    except OSError as error:
        problems.append(explain_error(error))
    except EngramError as error:
        problems.append(str(error))
