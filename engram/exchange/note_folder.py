"""Folders of Markdown notes as memories: a section a memory, with the date that its file tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engram.atomic import read_regular
from engram.clock import parse_time_ms
from engram.enums import Kind, Scope, Source, Voice
from engram.exchange.incoming import Incoming, IncomingMemory, Unusable, derived_ids
from engram.exchange.incoming import Source as FileSource
from engram.models.episodes import MAX_SUMMARY_CHARACTERS, Episode
from engram.notes.chunk import cut_markdown
from engram.notes.places import MAX_NOTE_BYTES

#: The format's name, and that of the extractor of its memories.
FORMAT = "notes"
#: Words of a section; a longer one becomes several memories.
MAX_SECTION_WORDS = 400
#: Most files of one folder.
MAX_FILES = 20_000

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n?", re.DOTALL)
_FIELD = re.compile(r"(?m)^(description|title|date|created|created_at|updated)\s*:\s*(.+?)\s*$")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")


def read_note_folder(path: Path, *, is_global: bool) -> FileSource:
    """Return what is read from a folder of Markdown notes, or from one note.

    Args:
        path: the folder, whose hidden folders are passed over, or the note.
        is_global: the notes hold in every project; else in the one that they are imported into.
    """
    return FileSource(FORMAT, str(path), _items(path, Scope.GLOBAL if is_global else Scope.PROJECT))


def find_note_files(path: Path) -> list[Path]:
    """Return the Markdown files of a folder, by name; links and hidden ones are none."""
    if path.is_file():
        return [path]
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in (".md", ".markdown")
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and file.is_file()
        and not file.is_symlink()
    ]
    return files[:MAX_FILES]


def _items(path: Path, scope: Scope) -> Iterator[Incoming]:
    base = path if path.is_dir() else path.parent
    for file in find_note_files(path):
        name = file.relative_to(base).as_posix()
        data = read_regular(file, MAX_NOTE_BYTES + 1)
        if data is None or len(data) > MAX_NOTE_BYTES:
            yield Unusable(name, "it can't be read" if data is None else f"it is larger than {MAX_NOTE_BYTES} bytes")
            continue
        text = data.decode("utf-8", "replace").lstrip("\ufeff").replace("\r\n", "\n").replace("\0", "")
        memories = list(_sections(name, text, file.stat().st_mtime_ns // 1_000_000, scope))
        yield from memories
        if not memories:
            yield Unusable(name, "it has no text")


def _sections(name: str, text: str, changed_at_ms: int, scope: Scope) -> Iterator[IncomingMemory]:
    match = _FRONT_MATTER.match(text)
    fields = dict(_FIELD.findall(match[1])) if match else {}
    body = text[match.end() :] if match else text
    at_ms = _date_of(name, fields) or changed_at_ms
    title = _unquoted(fields.get("title", "")) or Path(name).stem
    for number, chunk in enumerate(cut_markdown(body, MAX_SECTION_WORDS)):
        first = next((line.strip(" -*>\t") for line in chunk.text.splitlines() if line.strip(" -*>\t")), "")
        if not first:
            continue
        heading = chunk.heading or (title if number == 0 else "")
        described = _unquoted(fields.get("description", "")) if number == 0 else ""
        summary = described or (f"{heading.rsplit(' › ', 1)[-1]}: {first}" if heading else first)
        # The text decides: a note that is imported again after a change brings the changed sections only.
        yield IncomingMemory(
            episode=Episode(
                **derived_ids(FORMAT, name, chunk.heading, chunk.text),
                kind=Kind.FACT,
                summary=_cut(" ".join(summary.split())),
                content=f"{chunk.heading}\n\n{chunk.text}" if chunk.heading else chunk.text,
                scope=scope,
                source=Source.MANUAL,
                voice=Voice.IMPORTED,
                confidence=1.0,
                quality=1.0,
                extractor=FORMAT,
                created_at_ms=at_ms,
            ),
            reason=f"from the note {name}, line {chunk.start_line}",
        )


def _date_of(name: str, fields: dict[str, str]) -> int | None:
    """Return the date that the fields or the name of a note tell, in milliseconds since 1970."""
    for field in ("date", "created", "created_at", "updated"):
        at_ms = parse_time_ms(_unquoted(fields.get(field, "")))
        if at_ms is not None:
            return at_ms
    for text in (*(fields.get(field, "") for field in ("date", "created", "created_at")), name):
        match = _DATE.search(text)
        at_ms = parse_time_ms(f"{match[0]}T12:00:00Z") if match else None
        if at_ms is not None:
            return at_ms
    return None


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SUMMARY_CHARACTERS else text[: MAX_SUMMARY_CHARACTERS - 1] + "…"
