"""Undo a run after a failure, or a whole installation at uninstall."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from engram.errors import InstallError
from engram.paths import Home
from engram.setup.edits.apply_edit import revert_change
from engram.setup.edits.file_state import (
    ABSENT,
    FileState,
    StateKind,
    digest_of,
    drop_temporary,
    make_folders,
    read_state,
    write_state,
)
from engram.setup.edits.install_steps import Step
from engram.setup.edits.journal import FileRecord, Journal, Ledger, Phase, drop_journal, folder_of, kept_content
from engram.setup.installing.install_run import Run, action_from_json, collecting, undo_actions
from engram.system.atomic import explain_error, make_private_folder, write_atomic
from engram.system.failpoint import reach

# -- Restore a changed file: to its previous bytes, or to its current content without Engram's part.


def take_back(home: Home, record: FileRecord, goal: FileState, ours: Collection[FileState] = ()) -> str:
    """Restore a file to ``goal``, its state before a change, keeping what others have changed since.

    Args:
        ours: states besides ``record.written`` in which Engram may have left the file.

    Returns:
        "", or one line that the user should see.

    Raises:
        InstallError: it can't be written, or is no longer valid, and is left unchanged.
    """
    real = Path(record.real)
    drop_temporary(real)
    state, data = read_state(real)
    # Keep permissions that someone has changed since.
    mode = goal.mode if state.mode == record.written.mode or state.kind is not StateKind.FILE else state.mode
    try:
        if state.has_same_content(goal):
            if goal.kind is StateKind.FILE and state.mode != mode:
                os.chmod(real, mode)
        elif any(state.has_same_content(known) for known in (record.written, *ours)):
            _write(real, replace(goal, mode=mode), kept_content(home, goal))
        else:
            return _take_back_changed(home, record, goal, state, data)
    except OSError as error:
        raise InstallError(f"can't restore {record.path}: {explain_error(error)}") from error
    return ""


def _take_back_changed(home: Home, record: FileRecord, goal: FileState, state: FileState, data: bytes) -> str:
    """Undo a change to a file that others have changed since; return what was not undone, or ""."""
    real = Path(record.real)
    if record.written.kind is StateKind.ABSENT:
        return f"{record.path} is kept: someone replaced the file that Engram had moved away"
    if state.kind is StateKind.ABSENT:
        if record.applied is None and goal.kind is not StateKind.ABSENT:
            _write(real, goal, kept_content(home, goal))
        return ""
    if record.applied is not None and state.kind is StateKind.FILE:
        text = revert_change(Path(record.path), data, record.applied)
        if goal.kind is StateKind.ABSENT and not text.strip():
            _write(real, ABSENT, b"")
        else:
            _write(real, FileState(StateKind.FILE, digest_of(text), state.mode), text)
        return f"{record.path} has since been changed by others: only Engram's entries were removed"
    note = keep_copy(home, real, data) if state.kind is StateKind.FILE else ""
    _write(real, goal, kept_content(home, goal))
    return note


def keep_copy(home: Home, real: Path, data: bytes) -> str:
    """Save the content of one of Engram's files that someone changed; return a line for the user. Raises OSError."""
    kept = make_private_folder(folder_of(home) / "kept", with_parents=True) / real.name
    write_atomic(kept, data)
    return f"{real} has been changed since Engram wrote it; a copy is in {kept}"


def _write(real: Path, state: FileState, data: bytes) -> None:
    if state.kind is not StateKind.ABSENT:
        make_folders(real.parent)
    write_state(real, state, data)


def drop_folders(folders: Sequence[str]) -> None:
    """Remove the folders that are empty; ``folders`` lists outer ones first."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def undo_run(run: Run) -> list[str]:
    """Undo what this run changed; return what could not be undone."""
    journal, problems = run.journal, list[str]()
    journal.phase = Phase.UNDOING
    with contextlib.suppress(OSError):
        run.save()
    for step in reversed(journal.ledger.steps):
        if step.is_begun:
            undo_actions(run, step.after, problems)
    for path, state in reversed(journal.before.items()):
        former = journal.previous.files.get(path)
        record = journal.ledger.files.get(path) or former
        if record is not None:
            with collecting(problems):
                take_back(run.home, record, state, ours=(former.written, former.original) if former else ())
                reach("install.undone")
    with collecting(problems):
        run.put_back()
    for step in reversed(journal.ledger.steps):
        if step.is_begun:
            undo_actions(run, step.before, problems)
    drop_folders(journal.ledger.folders[len(journal.previous.folders) :])
    for step in journal.previous.steps:
        # Start again what the previous installation had started.
        for stored in [*step.before, *step.after]:
            with collecting(problems):
                action_from_json(stored).apply()
    if problems:
        return problems
    with collecting(problems):
        journal.ledger, journal.previous, journal.before = journal.previous, Ledger(), {}
        if journal.ledger.steps:
            journal.phase = Phase.INSTALLED
            run.save()
        else:
            drop_journal(run.home)
    return problems


def undo_installation(run: Run, journal: Journal) -> None:
    """Undo everything; the journal is deleted last, and only if nothing is left."""
    run.journal = journal
    # If a run was interrupted, the previous installation's changes are Engram's too.
    for path, record in journal.previous.files.items():
        journal.ledger.files.setdefault(path, record)
    known = {step.name for step in journal.ledger.steps}
    journal.ledger.steps += [step for step in journal.previous.steps if step.name not in known]
    journal.previous.steps = []
    journal.phase = Phase.UNINSTALLING
    run.save()
    reach("uninstall.begun")
    for step in reversed(journal.ledger.steps):
        run.tell(Step(step.name, step.summary))
        undo_actions(run, step.after)
        reach("uninstall.stopped")
    for record in reversed(list(journal.ledger.files.values())):
        with collecting(run.outcome.problems):
            former = journal.previous.files.get(record.path)
            is_former = former is not None and read_state(Path(former.real))[0].has_same_content(former.written)
            source = former if former is not None and is_former else record
            run.note(take_back(run.home, source, record.original))
            run.outcome.changed.append(record.path)
        reach("uninstall.restored")
    drop_folders(journal.ledger.folders)
    for step in reversed(journal.ledger.steps):
        undo_actions(run, step.before)
    if not run.outcome.problems:
        drop_journal(run.home)
