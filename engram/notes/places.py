"""Which files are notes, and what each is called. Nothing outside the notes' folders is ever opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from engram.atomic import read_regular
from engram.settings import Settings

#: A note larger than this is cut when it is read, in bytes.
NOTE_LIMIT_BYTES = 2_000_000
#: Notes of one folder beyond this many are left out.
NOTES_LIMIT = 5000


def note_folders(settings: Settings) -> list[tuple[str, Path]]:
    """``(prefix of the names, folder)``: the memory folder's own notes and those that the user names."""
    folders = [("", settings.places.notes)]
    # Names of Engram's own folders: what lies in a folder of the user's must not pass for theirs.
    taken = {"", "daily/", "saved/", "archive/"}
    for named in settings.note_folders:
        folder = Path(named).expanduser()
        prefix, number = folder.name or "notes", 1
        while f"{prefix}/" in taken:
            number += 1
            prefix = f"{folder.name}-{number}"
        taken.add(f"{prefix}/")
        folders.append((f"{prefix}/", folder))
    return folders


def find_notes(settings: Settings) -> Iterator[tuple[str, Path]]:
    """``(source name, path)`` of every Markdown file in the notes' folders; links are not followed."""
    for prefix, folder in note_folders(settings):
        found = 0
        for parent, folders, files in os.walk(folder, followlinks=False):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                path = Path(parent) / name
                if name.lower().endswith((".md", ".markdown")) and not name.startswith(".") and not path.is_symlink():
                    found += 1
                    if found <= NOTES_LIMIT:
                        yield prefix + path.relative_to(folder).as_posix(), path


def read_note(path: Path) -> str | None:
    """A note's text; None where the file is gone, a link or no regular file."""
    data = read_regular(path, NOTE_LIMIT_BYTES)
    return None if data is None else data.decode("utf-8", "replace").lstrip("\ufeff")
