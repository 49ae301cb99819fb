"""Compute the new content of a changed file, and its content without Engram's part."""

from __future__ import annotations

import codecs
import contextlib
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engram.errors import BadRequest, InstallError
from engram.setup.edits.install_steps import FileChange, JsonEdit, TomlEdit
from engram.setup.edits.json_edit import AppliedJson, apply_json, drop_json, revert_json
from engram.setup.edits.toml_edit import AppliedToml, apply_toml, revert_toml


def decode(path: Path, data: bytes) -> str:
    """Return the text of a file without a byte order mark. Raises InstallError if it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InstallError(f"{path} is not UTF-8 text (byte {error.start}). Nothing was changed") from error


def encode(text: str, before: bytes) -> bytes:
    """Return the bytes of a changed file, with a byte order mark if it had one ``before``."""
    return (codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b"") + text.encode()


@contextlib.contextmanager
def editing(path: Path) -> Iterator[None]:
    """Raise InstallError, which names the file, if the block finds that its text can't be read or edited."""
    try:
        yield
    except (BadRequest, tomllib.TOMLDecodeError) as error:
        raise InstallError(f"{path} can't be edited: {error}. Correct it; nothing was changed") from error


def drop_stale(path: Path, data: bytes, change: FileChange) -> bytes:
    """Return the file's content without outdated entries of Engram's own, which are never restored."""
    if not isinstance(change.edit, JsonEdit) or not change.edit.drop:
        return data
    with editing(path):
        return encode(drop_json(decode(path, data), change.edit.drop), data)


def apply_change(change: FileChange, base: bytes) -> tuple[bytes, dict[str, Any] | None]:
    """Return the new content of a file that is to be written, and the record of an edit.

    Raises:
        InstallError: the file can't be edited; the message says where.
    """
    path = change.path
    with editing(path):
        if isinstance(change.edit, JsonEdit):
            text, applied = apply_json(decode(path, base), change.edit)
            return encode(text, base), {"json": applied.to_json()}
        if isinstance(change.edit, TomlEdit):
            text, applied_toml = apply_toml(decode(path, base), change.edit)
            return encode(text, base), {"toml": applied_toml.to_json()}
    return change.content or b"", None


def revert_change(path: Path, data: bytes, applied: dict[str, Any]) -> bytes:
    """Return the content of a file that others have changed in the meantime, without Engram's part.

    Raises:
        InstallError: the file is no longer valid in its format.
    """
    text = decode(path, data)
    with editing(path):
        if "toml" in applied:
            return encode(revert_toml(text, AppliedToml.from_json(applied["toml"])), data)
        return encode(revert_json(text, AppliedJson.from_json(applied["json"])), data)


def merge_changes(changes: Sequence[FileChange]) -> FileChange:
    """Return one change that combines all changes to a path.

    Raises:
        InstallError: the changes contradict each other.
    """
    first = changes[0]
    if len(changes) == 1 or all(change == first for change in changes):
        return first
    edits = [change.edit for change in changes if isinstance(change.edit, JsonEdit)]
    if len(edits) != len(changes):
        raise InstallError(f"two steps change {first.path} in conflicting ways")
    merged = JsonEdit(
        add=tuple(entry for edit in edits for entry in edit.add),
        remove=tuple(entry for edit in edits for entry in edit.remove),
        drop=tuple(entry for edit in edits for entry in edit.drop),
    )
    modes = [change.mode for change in changes if change.mode is not None]
    return FileChange(first.path, edit=merged, mode=modes[0] if modes else None)
