"""Recognise the format of a file or folder by its content, and open it for import."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from engram.errors import BadRequest, NotFound
from engram.exchange import export, other_programs
from engram.exchange.exchange_records import Source
from engram.models.rescue.foreign_database import reading_foreign
from engram.paths import user_home
from engram.settings import Settings
from engram.setup.old_engram.find import find_databases, memory_folders, version_of
from engram.system.atomic import read_regular

_SQLITE = b"SQLite format 3\0"


@contextlib.contextmanager
def open_source(
    path: Path | None, wanted: str | None, settings: Settings, *, has_project: bool, is_global: bool
) -> Iterator[Source]:
    """Open a file or folder to import, by default in the usual place of another program.

    Args:
        path: the file or folder; None for the usual place of the program ``wanted``.
        wanted: jsonl, markdown, notes, claude-mem or earlier; None to detect the format.
        has_project: True if the user specified a project for notes.
        is_global: True if the user specified that notes are global.

    Raises:
        NotFound: there is no such file or folder.
        BadRequest: the format is unknown, or it is unclear to which projects notes apply.
    """
    with contextlib.ExitStack() as opened:
        if path is None:
            yield _usual_places(wanted, settings, opened)
            return
        if not path.exists():
            raise NotFound(f"there is no file or folder {path}")
        chosen = wanted or _recognise(path)
        if chosen == "jsonl":
            yield export.read_json_lines(opened.enter_context(path.open("rb")), str(path))
        elif chosen == "markdown":
            if not path.is_dir() or not export.is_markdown_export(path):
                raise BadRequest(f"{path} is not a Markdown export from Engram; to import notes: --from notes")
            yield export.read_markdown(path)
        elif chosen == "notes":
            if has_project is is_global:
                raise BadRequest("say where the notes apply: in a project (--project NAME) or everywhere (--global)")
            yield other_programs.read_note_folder(path, is_global=is_global)
        else:
            yield _open_database(path, chosen, settings, opened)


def _recognise(path: Path) -> str:
    if path.is_dir():
        return "markdown" if export.is_markdown_export(path) else "notes"
    if (read_regular(path.resolve(), len(_SQLITE)) or b"") == _SQLITE:
        return "database"
    return "notes" if path.suffix.lower() in (".md", ".markdown") else "jsonl"


def _usual_places(wanted: str | None, settings: Settings, opened: contextlib.ExitStack) -> Source:
    if wanted == "claude-mem":
        path = other_programs.default_path(user_home())
        if not path.is_file():
            raise NotFound(f"there is no claude-mem database at {path}; specify the file")
        return _open_database(path, wanted, settings, opened)
    if wanted == "earlier":
        databases = [
            database.path
            for folder in memory_folders(settings, user_home())
            for database in find_databases(folder, settings.home)
        ]
        if not databases:
            raise NotFound("there is no database of the earlier Engram in the memory folder; specify the file")
        sources = [_open_database(path, wanted, settings, opened) for path in databases]
        return Source(
            other_programs.OLD_ENGRAM_FORMAT,
            ", ".join(map(str, databases)),
            chain(*(source.items for source in sources)),
        )
    raise BadRequest("specify the file or folder to import (- for standard input)")


def _open_database(path: Path, wanted: str, settings: Settings, opened: contextlib.ExitStack) -> Source:
    database = opened.enter_context(reading_foreign(path, settings.home))
    if wanted != "earlier" and other_programs.is_claude_mem(database):
        return other_programs.read_claude_mem(database)
    if wanted != "claude-mem" and version_of(database):
        return other_programs.read_earlier(database)
    raise BadRequest(f"{path} is not a database of claude-mem or of the earlier Engram")
