"""Bring the machine into the state that steps describe, and undo that after a failure or at uninstall.

Each change is recorded, made, and then verified.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engram.errors import InstallError
from engram.paths import Home
from engram.setup.edits.apply_edit import apply_change, drop_stale, merge_changes, revert_change
from engram.setup.edits.file_state import (
    ABSENT,
    FileState,
    StateKind,
    check_writable,
    digest_of,
    drop_temporary,
    make_folders,
    missing_folders,
    read_state,
    real_path,
    write_state,
)
from engram.setup.edits.install_steps import NEW_FILE_MODE, Action, FileChange, Step
from engram.setup.edits.journal import (
    FileRecord,
    Journal,
    Ledger,
    Phase,
    StepRecord,
    drop_contents,
    drop_journal,
    folder_of,
    keep_content,
    kept_content,
)
from engram.setup.installing.install_run import (
    Run,
    action_from_json,
    action_to_json,
    change_to_json,
    collecting,
    first_actions,
    undo_actions,
)
from engram.system.atomic import explain_error, make_private_folder, write_atomic
from engram.system.failpoint import reach

#: How often a change to a file is retried while another program writes the file.
MAX_TRIES = 5


def plan_files(steps: Sequence[Step]) -> dict[Path, tuple[str, FileChange]]:
    """Return path → the name of the first step that changes it, and all its changes combined. Raises InstallError."""
    changes: dict[Path, list[tuple[str, FileChange]]] = {}
    for step in steps:
        for change in step.changes:
            changes.setdefault(change.path, []).append((step.name, change))
    return {path: (named[0][0], merge_changes([change for _, change in named])) for path, named in changes.items()}


def apply_steps(run: Run, steps: Sequence[Step]) -> None:
    """Retire what the steps no longer contain, then apply them in order.

    Raises:
        InstallError: a file or an action failed. The caller undoes the run.
        OSError: the disk failed.
    """
    files = plan_files(steps)
    run.save()
    reach("install.begun")
    left = {str(path) for step in steps for path in step.left}
    _retire(run, {step.name for step in steps}, left | {str(path) for path in files})
    ledger = run.journal.ledger
    # A step that only has notes did nothing that could be undone.
    steps = [step for step in steps if not step.is_empty or any(str(path) in ledger.files for path in step.left)]
    ledger.steps = [_record_of(step, run.journal.previous.step(step.name)) for step in steps]
    run.save()
    for step, record in zip(steps, ledger.steps, strict=True):
        run.tell(step)
        record.is_begun = True
        run.save()
        _act(step.before)
        for path, (name, change) in files.items():
            if name == step.name:
                _change_until_quiet(run, path, step.name, change)
        _act(step.after)
        record.is_done = True
        run.save()
        reach("install.step")
    ledger.steps = [record for step, record in zip(steps, ledger.steps, strict=True) if not step.only_drops]
    order = {step.name: number for number, step in enumerate(steps)}
    ledger.files = dict(sorted(ledger.files.items(), key=lambda item: order.get(item[1].step, len(steps))))
    run.check()
    _finish(run)


def _finish(run: Run) -> None:
    """Record that the run is complete, so that the machine is in the state that the ledger describes."""
    run.journal.phase = Phase.INSTALLED
    run.journal.previous, run.journal.before = Ledger(), {}
    run.save()
    reach("install.finished")
    drop_contents(run.home, [record.original for record in run.journal.ledger.files.values()])


def _retire(run: Run, steps: set[str], files: set[str]) -> None:
    """Undo the parts of the previous installation that this one no longer has.

    A file that a step moved away is not restored while the plan still contains that step, which lists only files that
    are there now.
    """
    ledger = run.journal.ledger
    for record in reversed([step for step in ledger.steps if step.name not in steps]):
        undo_actions(run, record.after)
        undo_actions(run, record.before)
    if run.outcome.problems:
        raise InstallError("; ".join(run.outcome.problems))
    moved = {path for path, record in ledger.files.items() if record.step in steps and record.written == ABSENT}
    for file in [record for path, record in ledger.files.items() if path not in files | moved]:
        _remember(run, file.path, Path(file.real))
        run.note(take_back(run.home, file, file.original))
        _drop_folders(ledger.folders)
        run.outcome.changed.append(file.path)
        del ledger.files[file.path]
        run.save()
        reach("install.retired")


class _Raced(InstallError):
    """Another program wrote the file between the installer's reading and writing it."""


def _change_until_quiet(run: Run, path: Path, step: str, change: FileChange) -> None:
    """Change one file; retry if another program, such as Claude Code itself, is writing it at the same time."""
    for _ in range(MAX_TRIES - 1):
        try:
            return _change(run, path, step, change)
        except _Raced:
            run.journal.before.pop(str(path), None)
    return _change(run, path, step, change)


def _change(run: Run, path: Path, step: str, change: FileChange) -> None:
    """Record, write and verify one file. Raises _Raced, with nothing written, if it changed in the meantime."""
    is_link = change.link_target is not None or change.is_removal
    real = real_path(path, is_link=is_link)
    drop_temporary(real)
    state, data = read_state(real)
    state, data = _mend_partial(run, path, real, state, data)
    original, base = _base(run, path, change, state, data)
    written, content, applied = _wanted(change, state, base)
    if written != state:
        check_writable(path, real, state)
    _remember(run, str(path), real)
    if original.kind is StateKind.FILE:
        keep_content(run.home, base)
    if change.content is not None and _is_changed_by_others(run, path, state):
        run.note(_keep_copy(run.home, real, data))
    record = FileRecord(path=str(path), real=str(real), step=step, original=original, written=written, applied=applied)
    if written.kind is not StateKind.ABSENT:
        run.journal.ledger.folders += map(str, missing_folders(real.parent))
    run.journal.ledger.files[str(path)] = record
    run.save()
    reach("install.recorded")
    if written != state:
        if written.kind is not StateKind.ABSENT:
            make_folders(real.parent)
        if read_state(real)[0] != state:
            raise _Raced(f"another program keeps changing {path}. Close it, then run `engram install` again")
        write_state(real, written, content)
        reach("install.written")
        if read_state(real)[0] != written:
            raise InstallError(f"{path} is not what was written. Run `engram install` again")
        run.outcome.changed.append(str(path))
    record.is_written = True
    run.save()
    reach("install.verified")


def _mend_partial(run: Run, path: Path, real: Path, state: FileState, data: bytes) -> tuple[FileState, bytes]:
    """Restore a file with hard links that a killed installer left partly written."""
    record = run.journal.ledger.files.get(str(path))
    before = run.journal.before.get(str(path))
    if record is None or before is None or record.is_written or state.kind is not StateKind.FILE:
        return state, data
    if real.stat().st_nlink < 2 or state.digest in (before.digest, record.written.digest):
        return state, data
    old = kept_content(run.home, before)
    write_state(real, before, old)
    return read_state(real)


def _is_changed_by_others(run: Run, path: Path, state: FileState) -> bool:
    """Return True if one of Engram's own files differs from what Engram wrote."""
    ledgers = (run.journal.ledger, run.journal.previous)
    known = [ledger.files[str(path)].written for ledger in ledgers if str(path) in ledger.files]
    return bool(known) and state.kind is StateKind.FILE and not any(map(state.has_same_content, known))


def _base(run: Run, path: Path, change: FileChange, state: FileState, data: bytes) -> tuple[FileState, bytes]:
    """Return the state that uninstall restores, and its content: the file without Engram's part."""
    record = run.journal.ledger.files.get(str(path))
    former = run.journal.previous.files.get(str(path))
    for known in (record, former):
        if known is not None and state.has_same_content(known.written):
            return known.original, kept_content(run.home, known.original)
    known = record if record is not None and record.is_written else former
    if known is not None and known.applied is not None and state.kind is StateKind.FILE:
        data = revert_change(path, data, known.applied)
        if known.original.kind is StateKind.ABSENT and not data.strip():
            return ABSENT, b""
    elif known is not None and known.written != ABSENT:
        return known.original, kept_content(run.home, known.original)
    if state.kind is not StateKind.FILE:
        return state, b""
    data = drop_stale(path, data, change)
    return FileState(StateKind.FILE, digest_of(data), state.mode), data


def _remember(run: Run, path: str, real: Path) -> None:
    """Save the state that a file had before this run."""
    if path in run.journal.before:
        return
    state, data = read_state(real)
    if state.kind is StateKind.FILE:
        keep_content(run.home, data)
    run.journal.before[path] = state


def _record_of(step: Step, former: StepRecord | None) -> StepRecord:
    before = [action_to_json(action) for action in step.before]
    return StepRecord(
        name=step.name,
        summary=step.summary,
        before=first_actions(former.before if former else (), before),
        after=[action_to_json(action) for action in step.after],
        changes=[change_to_json(change) for change in step.changes],
    )


def _act(actions: Sequence[Action]) -> None:
    """Apply actions, then verify them all. Raises InstallError."""
    for action in actions:
        action.apply()
        reach("install.action")
    for action in actions:
        if wrong := action.verify():
            raise InstallError(wrong)


def _wanted(change: FileChange, state: FileState, base: bytes) -> tuple[FileState, bytes, dict[str, Any] | None]:
    """Return the state to write, its content, and the record of an edit."""
    if change.is_removal:
        return ABSENT, b"", None
    if change.link_target is not None:
        return FileState(StateKind.LINK, target=change.link_target), b"", None
    content, applied = apply_change(change, base)
    if change.edit is not None and not content and state.kind is StateKind.ABSENT:
        return ABSENT, b"", applied
    mode = change.mode if change.mode is not None else state.mode if state.kind is StateKind.FILE else NEW_FILE_MODE
    return FileState(StateKind.FILE, digest_of(content), mode), content, applied


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
            write_state(real, ABSENT, b"")
        else:
            write_state(real, FileState(StateKind.FILE, digest_of(text), state.mode), text)
        return f"{record.path} has since been changed by others: only Engram's entries were removed"
    note = _keep_copy(home, real, data) if state.kind is StateKind.FILE else ""
    _write(real, goal, kept_content(home, goal))
    return note


def _keep_copy(home: Home, real: Path, data: bytes) -> str:
    """Save the content of one of Engram's files that someone changed; return a line for the user. Raises OSError."""
    kept = make_private_folder(folder_of(home) / "kept", with_parents=True) / real.name
    write_atomic(kept, data)
    return f"{real} has been changed since Engram wrote it; a copy is in {kept}"


def _write(real: Path, state: FileState, data: bytes) -> None:
    if state.kind is not StateKind.ABSENT:
        make_folders(real.parent)
    write_state(real, state, data)


def _drop_folders(folders: Sequence[str]) -> None:
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
    _drop_folders(journal.ledger.folders[len(journal.previous.folders) :])
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
    _drop_folders(journal.ledger.folders)
    for step in reversed(journal.ledger.steps):
        undo_actions(run, step.before)
    if not run.outcome.problems:
        drop_journal(run.home)
