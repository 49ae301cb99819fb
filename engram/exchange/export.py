"""Export memories as JSON Lines, one line per memory and a last one for forgotten items, or as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from engram.errors import BadRequest, BrokenDatabase
from engram.exchange.exchange_records import (
    FORGOTTEN,
    Incoming,
    Source,
    Unusable,
    incoming_of,
    record_of,
    tombstone_record,
)
from engram.forgetting.forget_files import MARKDOWN_EXPORT
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import Memory
from engram.models.projects.project_folders import list_hints
from engram.models.rescue.soundness import table_damage
from engram.system.atomic import make_private_folder, read_regular, write_atomic
from engram.system.clock import iso_time

#: Maximum length of a line that is read, in bytes.
MAX_LINE_BYTES = 64_000_000
#: Tables of memory.db from which an export is read.
EXPORTED_TABLES = ("episode", "evidence", "history", "tombstone", "project", "session")
FORMAT = "jsonl"


def export_records(
    store: Store, is_wanted: Callable[[Memory], bool], *, with_forgotten: bool
) -> Iterator[dict[str, Any]]:
    """Yield the records of memories, oldest first, and finally that of forgotten items.

    Args:
        with_forgotten: include forgotten items, as ids and hashes, so that they are not recreated elsewhere.

    Raises:
        BrokenDatabase: the database is damaged. Raised at the end, after everything readable has been yielded.
    """
    damage = table_damage(store, EXPORTED_TABLES)
    hints = {known.project.id: known for known in list_hints(store)}
    for memory in memory_records.all_memories(store):
        if is_wanted(memory):
            yield record_of(store, memory, hints)
    forgotten = tombstone_record(store) if with_forgotten else None
    if forgotten is not None:
        yield forgotten
    if damage:
        raise BrokenDatabase(f"{store.path} is damaged ({damage}): the export may lack memories")


def read_json_lines(file: IO[bytes], name: str) -> Source:
    """Return the content of an export.

    Iterating over it raises BadRequest if the first line is not a JSON object, since the file is then not an export.
    """
    return Source(format=FORMAT, name=name, items=_items(file))


def _items(file: IO[bytes]) -> Iterator[Incoming]:
    is_export = False
    number = 0
    while data := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if not data.strip():
            continue
        try:
            record = _record_in(data)
        except BadRequest as error:
            if not is_export:
                raise BadRequest(
                    f"line {number} is {error}, so this is not an Engram export; `engram import --help` lists the "
                    "formats"
                ) from error
            # The rest of an export that was cut off or damaged.
            yield Unusable(f"line {number}", f"it is {error}")
            continue
        is_export = True
        yield _incoming(f"line {number}", record)


def _record_in(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line. Raises BadRequest with what the line is instead."""
    if len(line) > MAX_LINE_BYTES:
        raise BadRequest(f"longer than {MAX_LINE_BYTES} bytes")
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadRequest("not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise BadRequest("not JSON") from error
    if not isinstance(record, dict):
        raise BadRequest("not a JSON object")
    return record


# -- Exports as Markdown, which people can read, search and compare: one folder per project, and one file per memory.
#
# A file begins with the fields of the memory, one per line, as JSON (which is also YAML). The summary follows as a
# heading, and then the content, verbatim. A file can therefore be imported again without loss, and a change to a memory
# changes only a few lines.

MARKDOWN_FORMAT = "markdown"
#: First line of every file, which identifies the format.
_BEGINNING = MARKDOWN_EXPORT.decode()
#: Maximum size of a file that is read, in bytes.
MAX_FILE_BYTES = 64_000_000
#: File that lists forgotten items.
_FORGOTTEN_FILE = "forgotten.md"
_GLOBAL_FOLDER, _NO_PROJECT_FOLDER = "_global", "_no-project"
#: Fields that come first, because readers look for them.
_FIRST = ("id", "summary", "kind", "project", "scope", "status", "importance", "created_at_ms", "pinned")
_LIST_FIELDS = ("history", "contradictions", "tombstones", "rests_on")
_FENCE = "---\n"


def write_markdown(folder: Path, records: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Write memories to a folder; return how many, and how many files of an earlier export were removed.

    Unchanged files are not written again. Other files in the folder are not touched.

    Raises:
        OSError: the folder can't be written.
    """
    make_private_folder(folder, with_parents=True)
    names = _FolderNames()
    written: set[Path] = set()
    for record in records:
        path = folder / names.path_of(record)
        data = to_markdown(record).encode("utf-8", "surrogateescape")
        make_private_folder(path.parent, with_parents=True)
        if read_regular(path, len(data) + 1) != data:
            write_atomic(path, data)
        written.add(path)
    removed = [path for path in _own_files(folder) if path not in written]
    for path in removed:
        path.unlink()
    count = len(written) - int(folder / _FORGOTTEN_FILE in written)
    return count, len(removed)


def is_markdown_export(folder: Path) -> bool:
    return next(_own_files(folder), None) is not None


def read_markdown(folder: Path) -> Source:
    """Return the content of a Markdown export. Other files in the folder are skipped."""
    return Source(format=MARKDOWN_FORMAT, name=str(folder), items=_markdown_items(folder))


def to_markdown(record: Mapping[str, Any]) -> str:
    """Return the text of a memory's file."""
    names = [*(name for name in _FIRST if name in record), *(name for name in record if name not in _FIRST)]
    lines: list[str] = []
    for name in names:
        if name == "content":
            continue
        if name in _LIST_FIELDS and record[name]:
            lines += [f"{name}:", *(f"  - {_json(item)}" for item in record[name])]
        else:
            lines.append(f"{name}: {_json(record[name])}")
    heading = " ".join(str(record["summary"]).split()) or str(record["kind"])
    fields = "\n".join(lines)
    return f"{_BEGINNING}{fields}\n{_FENCE}\n# {heading}\n\n{record['content']}\n"


def from_markdown(text: str) -> dict[str, Any] | None:
    """Return the record in a memory's file; None for any other text.

    Raises:
        BadRequest: it is a memory's file, but one of its fields can't be read.
    """
    if not text.startswith(_BEGINNING):
        return None
    fields, fence, body = text[len(_BEGINNING) :].partition(f"\n{_FENCE}")
    if not fence:
        raise BadRequest("its fields have no end (a line of three hyphens)")
    record: dict[str, Any] = {}
    name = ""
    # splitlines would also split at other characters, which a field may contain.
    for line in fields.split("\n"):
        is_item = line.startswith("  - ")
        key, colon, value = line.partition(":")
        try:
            if is_item and isinstance(record.get(name), list):
                record[name].append(json.loads(line[4:]))
            elif colon and not is_item:
                name = key
                record[name] = json.loads(value) if value.strip() else []
            else:
                raise BadRequest(f"{line[:60]!r} is not a field")
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the field {name or line[:60]!r} can't be read: {error}") from error
    match = re.match(r"\n# [^\n]*\n\n", body)
    content = body[match.end() :] if match else body.strip("\n")
    record["content"] = content.removesuffix("\n")
    return record


def _markdown_items(folder: Path) -> Iterator[Incoming]:
    forgotten: list[Path] = []
    records: list[tuple[tuple[Any, ...], str, dict[str, Any]]] = []
    for path in _own_files(folder):
        name = path.relative_to(folder).as_posix()
        if name == _FORGOTTEN_FILE:
            forgotten.append(path)
            continue
        if isinstance(record := _read(path), Unusable):
            yield record
        else:
            records.append(((str(record.get("kept_at_ms")).zfill(20), str(record.get("id"))), name, record))
    # Sorted by when the memories were stored, whatever the names of their files.
    for _, name, record in sorted(records, key=lambda known: known[0]):
        yield _incoming(name, record)
    for path in forgotten:
        yield _incoming(path.name, _read(path))


def _incoming(name: str, record: dict[str, Any] | Unusable) -> Incoming:
    if isinstance(record, Unusable):
        return record
    try:
        return incoming_of(record)
    except BadRequest as error:
        return Unusable(name, str(error))


def _read(path: Path) -> dict[str, Any] | Unusable:
    data = read_regular(path, MAX_FILE_BYTES)
    try:
        return from_markdown((data or b"").decode("utf-8", "surrogateescape")) or {}
    except BadRequest as error:
        return Unusable(path.name, str(error))


def _own_files(folder: Path) -> Iterator[Path]:
    """Yield the files of an export, sorted by name, excluding links."""
    for path in sorted(folder.rglob("*.md")):
        if not path.is_symlink() and read_regular(path, len(MARKDOWN_EXPORT)) == MARKDOWN_EXPORT:
            yield path


class _FolderNames:
    """Chooses the path of each memory's file. It is the same in every export as long as the projects are the same."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._taken: set[str] = set()

    def path_of(self, record: Mapping[str, Any]) -> Path:
        if record["kind"] == FORGOTTEN:
            return Path(_FORGOTTEN_FILE)
        day = iso_time(int(record.get("created_at_ms") or 0))[:10]
        return Path(self._folder(record)) / f"{day} {record['id']}.md"

    def _folder(self, record: Mapping[str, Any]) -> str:
        project = str(record.get("project") or "")
        if not project:
            return _GLOBAL_FOLDER if record.get("scope") == "global" else _NO_PROJECT_FOLDER
        if project not in self._folders:
            plain = re.sub(r"[^\w.@+-]+", "-", project).strip(".-_") or "project"
            name, number = plain, 1
            # On some systems, names that differ only in case refer to the same folder.
            while name.casefold() in self._taken:
                number += 1
                name = f"{plain}-{number}"
            self._taken.add(name.casefold())
            self._folders[project] = name
        return self._folders[project]


def _json(value: object) -> str:
    # Keep each value on one line, even for editors that also end lines at other characters.
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda char: f"\\u{ord(char[0]):04x}", text)
