"""Brings one changed file back: the bytes from before, or the file of now without Engram's part."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from engram.atomic import make_private_folder, write_atomic
from engram.causes import explain_error
from engram.errors import InstallError
from engram.install.edits import revert_change
from engram.install.file_state import (
    ABSENT,
    FileState,
    StateKind,
    digest_of,
    drop_temporary,
    make_folders,
    read_state,
    write_state,
)
from engram.install.journal import FileRecord, folder_of, kept_content
from engram.paths import Home


def take_back(home: Home, record: FileRecord, goal: FileState, ours: Collection[FileState] = ()) -> str:
    """Bring a file into the state ``goal`` (from before a change), and keep what others changed since.

    Args:
        ours: states besides ``record.written`` in which Engram may have left the file.

    Returns:
        "" or one line that the user should know.

    Raises:
        InstallError: it can't be written, or is no longer valid; it is unchanged then.
    """
    real = Path(record.real)
    drop_temporary(real)
    state, data = read_state(real)
    # Permissions that somebody changed since stay.
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
    """A file that others changed since Engram wrote it."""
    real = Path(record.real)
    if record.written.kind is StateKind.ABSENT:
        return f"{record.path} stays: somebody put another one in place of the one that Engram had moved away"
    if state.kind is StateKind.ABSENT:
        if record.applied is None and goal.kind is not StateKind.ABSENT:
            _write(real, goal, kept_content(home, goal))
        return ""
    if record.applied is not None and state.kind is StateKind.FILE:
        original = kept_content(home, goal)
        text = revert_change(Path(record.path), data, record.applied, original)
        if goal.kind is StateKind.ABSENT and not text.strip():
            _write(real, ABSENT, b"")
        else:
            _write(real, FileState(StateKind.FILE, digest_of(text), state.mode), text)
        return f"{record.path} was changed by others since: only Engram's entries were removed"
    note = keep_copy(home, real, data) if state.kind is StateKind.FILE else ""
    _write(real, goal, kept_content(home, goal))
    return note


def keep_copy(home: Home, real: Path, data: bytes) -> str:
    """Keep the content of a file of Engram's own that somebody changed; returns a line for the user. Raises OSError."""
    kept = make_private_folder(folder_of(home) / "kept", with_parents=True) / real.name
    write_atomic(kept, data)
    return f"{real} was changed since Engram wrote it; a copy is in {kept}"


def _write(real: Path, state: FileState, data: bytes) -> None:
    if state.kind is not StateKind.ABSENT:
        make_folders(real.parent)
    write_state(real, state, data)


def drop_folders(folders: Sequence[str]) -> None:
    """Remove folders that were created, if they are empty; outer ones come first."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
