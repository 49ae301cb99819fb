"""Files named by day in the notes folder: one writer at a time, and never rewritten from a partial read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from engram.atomic import locked_folder, read_whole, write_atomic
from engram.paths import Home

#: A day's file takes no more text beyond this size; the day goes on in a further file. In bytes.
MAX_DAY_BYTES = 400_000
#: A larger file is never rewritten, in bytes.
MAX_REWRITE_BYTES = 20_000_000

_SECTION = re.compile(r"(?m)^(?=## )")


@contextlib.contextmanager
def notes_lock(home: Home) -> Iterator[None]:
    """Hold the lock that every writer of a note takes before it reads the file. It cannot be taken twice by one
    thread.
    """
    with locked_folder(home.notes):
        yield


def paths_of_day(folder: Path, day: str) -> Iterator[Path]:
    """Yield ``DAY.md``, ``DAY-2.md``, ``DAY-3.md`` … without end, whether they exist or not."""
    yield folder / f"{day}.md"
    number = 1
    while True:
        number += 1
        yield folder / f"{day}-{number}.md"


def files_of_day(folder: Path, day: str) -> list[Path]:
    """Return the files of a day that exist, in order."""
    files: list[Path] = []
    for path in paths_of_day(folder, day):
        if not path.exists():
            return files
        files.append(path)
    return files


def append_to_day(folder: Path, day: str, title: str, text: str) -> Path:
    """Add ``text`` to the last file of a day that has room, or to a further one, and return its path.

    A file that cannot be read whole is left as it is. Call it with ``notes_lock`` held. Raises OSError.
    """
    added = text.strip("\n").encode("utf-8", "surrogateescape")
    for path in paths_of_day(folder, day):
        old = read_whole(path, MAX_REWRITE_BYTES)
        if old is None or (old and len(old) + len(added) > MAX_DAY_BYTES):
            continue
        head = old.rstrip(b"\n") or f"# {title}".encode()
        write_atomic(path, head + b"\n\n" + added + b"\n")
        return path
    raise AssertionError("unreachable: there is always a further file")


def cut_sections(text: str) -> list[str]:
    """Cut a note before each heading of the second level; the parts joined are the text."""
    return _SECTION.split(text)


def read_text(path: Path) -> str | None:
    """Return the text of a note that may be rewritten, "" if it does not exist; None if it must be left alone."""
    data = read_whole(path, MAX_REWRITE_BYTES)
    return None if data is None else data.decode("utf-8", "surrogateescape")


def write_text(path: Path, text: str) -> None:
    """Write a note whose text came from ``read_text``; bytes that are not UTF-8 stay what they were. Raises OSError."""
    write_atomic(path, text.encode("utf-8", "surrogateescape"))
