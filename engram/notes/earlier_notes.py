"""Notes of the earlier Engram: Markdown files that lie in the memory folder itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_DAY = re.compile(r"\d{4}-\d\d(?:-\d\d)?.*")
#: Folders of its notes.
_FOLDERS = ("daily", "archive")


def earlier_notes(folder: Path) -> Iterator[Path]:
    """Yield the notes that lie in a memory folder itself: MEMORY.md, dated files, and those of ``daily``, ``archive``.

    Links are none.
    """
    for path in sorted(folder.glob("*.md")):
        if (path.name == "MEMORY.md" or _DAY.fullmatch(path.stem)) and _is_note(path):
            yield path
    for name in _FOLDERS:
        inner = folder / name
        if inner.is_dir() and not inner.is_symlink():
            yield from (path for path in sorted(inner.rglob("*.md")) if _is_note(path))


def _is_note(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and not path.name.startswith(".")
