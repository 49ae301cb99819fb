"""Install and uninstall as one transaction: a failure undoes everything; an interrupted run is finished or undone.

Each change is recorded in the journal before it is made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from engram.errors import AlreadyRunning, EngramError, InstallError
from engram.paths import Home
from engram.setup.edits.install_steps import Step
from engram.setup.edits.journal import Journal, Ledger, Phase, folder_of, load_journal
from engram.setup.installing.apply_steps import apply_steps, plan_files, undo_installation, undo_run
from engram.setup.installing.install_run import BeforeStep, Outcome, Run
from engram.system.atomic import explain_error, make_private_folder
from engram.system.process_lock import ProcessLock


def install_steps(
    home: Home,
    steps: Sequence[Step],
    *,
    options: Mapping[str, Any],
    version: str,
    leftovers: Ledger | None = None,
    before_step: BeforeStep = lambda _: None,
    check: Callable[[], None] = lambda: None,
    put_back: Callable[[], None] = lambda: None,
) -> Outcome:
    """Bring the machine into the state that the steps describe, and undo earlier steps that are no longer planned.

    Args:
        leftovers: the files of an earlier installation, if no journal is stored.
        check: called after the last step. If it fails, everything is undone.
        put_back: undoes the caller's own changes; called during an undo, while no process is running.

    Raises:
        InstallError: something failed. Everything done in this run was undone, or the message says what was not.
    """
    with _locked(home):
        run = Run(home, before_step, check=check, put_back=put_back)
        journal = _recover(run, load_journal(home))
        if not journal.ledger.files and leftovers is not None:
            # The old connection to Claude Code is undone even if the new plan has none; other agents and the service
            # stay.
            ours = {str(path) for path in plan_files(steps)}
            ours |= {path for path, record in leftovers.files.items() if record.step in ("plugin", "settings")}
            journal.ledger.files = {path: record for path, record in leftovers.files.items() if path in ours}
            journal.ledger.folders = leftovers.folders
        if journal.phase is not Phase.INSTALLING:
            journal.previous, journal.before = Ledger.from_json(journal.ledger.to_json()), {}
        journal.phase, journal.options, journal.engram = Phase.INSTALLING, dict(options), version
        run.journal = journal
        try:
            apply_steps(run, steps)
        except BaseException as error:
            problems = undo_run(run)
            if isinstance(error, EngramError | OSError):
                text = explain_error(error) if isinstance(error, OSError) else str(error)
                undone = (
                    "Not everything could be undone: " + "; ".join(problems) if problems else "Nothing was changed."
                )
                said = text.rstrip(".").removesuffix(". Nothing was changed").removesuffix("; nothing was changed")
                raise InstallError(f"{said}. {undone}") from error
            if isinstance(error, KeyboardInterrupt) and problems:
                raise KeyboardInterrupt(f"Not everything could be undone: {'; '.join(problems)}.") from error
            raise
        return run.outcome


def uninstall(
    home: Home,
    *,
    stray: Journal | None = None,
    problems: Sequence[str] = (),
    before_step: BeforeStep = lambda _: None,
) -> Outcome:
    """Undo an installation, whether complete or half done. The parts that could not be undone are in ``problems``.

    Args:
        stray: the journal to undo if none is stored.
        problems: files that could not be examined; reported with the other problems.

    Raises:
        InstallError: the journal can't be read.
    """
    if load_journal(home) is None and stray is None:
        return Outcome(problems=list(problems))
    with _locked(home):
        run = Run(home, before_step)
        journal = load_journal(home) or stray
        if journal is not None:
            undo_installation(run, journal)
        # Add these last; otherwise, the search for leftovers would use this journal.
        run.outcome.problems += problems
        return run.outcome


@contextlib.contextmanager
def _locked(home: Home) -> Iterator[None]:
    make_private_folder(folder_of(home), with_parents=True)
    try:
        lock = ProcessLock(home.root / "install.lock")
    except AlreadyRunning as error:
        raise AlreadyRunning(
            "another `engram install` or `engram uninstall` is running. Wait until it has finished"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _recover(run: Run, journal: Journal | None) -> Journal:
    """Finish an interrupted undo or uninstallation first."""
    if journal is None:
        return Journal(Phase.INSTALLED)
    run.journal = journal
    if journal.phase is Phase.UNDOING:
        problems = undo_run(run)
        if problems:
            raise InstallError("can't undo the installation that failed before: " + "; ".join(problems))
    elif journal.phase is Phase.UNINSTALLING:
        undo_installation(run, journal)
        if run.outcome.problems:
            raise InstallError("can't finish the uninstallation: " + "; ".join(run.outcome.problems))
    return load_journal(run.home) or Journal(Phase.INSTALLED)
