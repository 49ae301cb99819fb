"""Find the files that are notes, and name them. Nothing outside the folders of notes is ever opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from engram.atomic import read_regular
from engram.notes.earlier_notes import earlier_notes
from engram.notes.owner import EARLIER_PREFIX
from engram.paths import Home
from engram.settings import Settings

#: A note larger than this is cut when it is read, in bytes.
MAX_NOTE_BYTES = 2_000_000
#: Most notes of one folder; the rest is omitted.
MAX_NOTES = 5000


def note_folders(settings: Settings) -> list[tuple[str, Path]]:
    """Return ``(prefix of the names, folder)`` of the memory folder's notes and of the folders that the user names."""
    folders = [("", settings.places.notes)]
    # Names of Engram's own folders: a folder of the user's must not be taken for one of them.
    taken = {"", "daily/", "saved/", "archive/", EARLIER_PREFIX}
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
    """Yield ``(source name, path)`` of every Markdown file in the folders of notes; links are not followed.

    The notes of the earlier Engram, which lie in the memory folder itself, are read where they are.
    """
    for path in islice(earlier_notes(settings.home), MAX_NOTES):
        yield source_name(settings.places, path), path
    for prefix, folder in note_folders(settings):
        count = 0
        for parent, folders, files in os.walk(folder, followlinks=False):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                path = Path(parent) / name
                if name.lower().endswith((".md", ".markdown")) and not name.startswith(".") and not path.is_symlink():
                    count += 1
                    if count <= MAX_NOTES:
                        yield prefix + path.relative_to(folder).as_posix(), path


def source_name(places: Home, path: Path) -> str:
    """Return the name of a note of the memory folder."""
    if path.is_relative_to(places.notes):
        return path.relative_to(places.notes).as_posix()
    return EARLIER_PREFIX + path.relative_to(places.root).as_posix()


def read_note(path: Path) -> str | None:
    """Return a note's text; None if the file is gone, a link or no regular file."""
    data = read_regular(path, MAX_NOTE_BYTES)
    return None if data is None else data.decode("utf-8", "replace").lstrip("\ufeff")
