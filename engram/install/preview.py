"""What a plan would do, as lines for `engram install --dry-run`. Nothing is written."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

from engram.errors import InstallError
from engram.install.apply_steps import plan_files
from engram.install.changes import FileChange, Step
from engram.install.edits import apply_change, drop_stale
from engram.install.file_state import StateKind, read_state, real_path


def preview(steps: Sequence[Step]) -> Iterator[str]:
    """Yield each step with its actions and files; of an edited file the lines that change, and no others.

    Raises:
        InstallError: a file can't be edited, or steps contradict each other.
    """
    files = plan_files(steps)
    for step in steps:
        yield step.summary
        yield from (f"  {action.describe()}" for action in step.before)
        for name, change in files.values():
            if name == step.name:
                yield from (f"  {line}" for line in _file_lines(change))
        yield from (f"  {action.describe()}" for action in step.after)
        yield from (f"  note: {note}" for note in step.notes)


def _file_lines(change: FileChange) -> Iterator[str]:
    real = real_path(change.path, is_link=change.link_target is not None or change.is_removal)
    state, data = read_state(real)
    if change.is_removal:
        if state.kind is not StateKind.ABSENT:
            yield f"move {change.path} into the backup"
    elif change.link_target is not None:
        yield f"link {change.path} to {change.link_target}"
    elif change.edit is None:
        verb = "create" if state.kind is StateKind.ABSENT else "keep" if data == change.content else "replace"
        yield f"{verb} {change.path}"
    else:
        new, _ = apply_change(change, drop_stale(change.path, data, change))
        yield f"{'keep' if new == data else 'edit' if data else 'create'} {change.path}"
        yield from _changed_lines(change.path, data, new)


def _changed_lines(path: Path, old: bytes, new: bytes) -> Iterator[str]:
    try:
        before, after = old.decode().splitlines(), new.decode().splitlines()
    except UnicodeDecodeError as error:
        raise InstallError(f"{path} is not UTF-8 text") from error
    for line in list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]:
        if not line.startswith("@@"):
            yield f"  {line}"
