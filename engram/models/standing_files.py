"""The user's own files that an agent reads at its start, as they were read last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass

from peewee import Query, fn

from engram.models import tables
from engram.models.records import RecordReader
from engram.models.statement import prepared
from engram.models.transaction import Reader, Tx

#: Forgotten lines that are remembered of a file, the latest.
MAX_FORGOTTEN_LINES = 200


@dataclass(frozen=True, slots=True)
class StandingFile:
    """One file."""

    path: str
    #: Row id of its project; None for a file that holds everywhere.
    project_id: int | None
    #: What it is called where a memory names it, such as ``CLAUDE.md``.
    name: str
    size: int
    changed_at_ns: int
    #: Redacted, and without the lines that were forgotten.
    text: str
    #: JSON list of the hashes of lines that are never kept.
    forgotten: str = "[]"


_FILES = RecordReader(StandingFile, tables.StandingFile, left_out={"id", "read_at_ms"})


def list_standing_files(store: Reader) -> list[StandingFile]:
    """Every file that was read."""
    return store.fetch_records(_FILES, _FILES.select().order_by(tables.StandingFile.path))


def standing_files_of(store: Reader, project_id: int | None) -> list[StandingFile]:
    """The files that hold in a project, and those that hold everywhere."""
    return store.fetch_records(_FILES, _of_project(-1 if project_id is None else project_id))


def standing_watermark(store: Reader) -> tuple[int, int, int]:
    """What differs once a file was read again, has come or has gone; cheap."""
    row = store.fetch_first(_watermark())
    return row.latest, row.number, row.changed_at_ns


def put_standing_file(tx: Tx, file: StandingFile) -> StandingFile:
    """Store what a file says now, without the lines that were forgotten; returns it as it is kept."""
    file_table = tables.StandingFile
    stored = tx.fetch_value(file_table.select(file_table.forgotten).where(file_table.path == file.path)) or "[]"
    text = _without(file.text, set(json.loads(stored)))
    drop_standing_file(tx, file.path)
    tx.insert_row(
        file_table,
        {
            "path": file.path,
            "project_id": file.project_id,
            "name": file.name,
            "size": file.size,
            "changed_at_ns": file.changed_at_ns,
            "text": text,
            "forgotten": stored,
            "read_at_ms": tx.now_ms(),
        },
    )
    return StandingFile(
        path=file.path,
        project_id=file.project_id,
        name=file.name,
        size=file.size,
        changed_at_ns=file.changed_at_ns,
        text=text,
        forgotten=stored,
    )


def drop_standing_file(tx: Tx, path: str) -> None:
    """Forget that a file was read; the file is not touched."""
    tx.run(tables.StandingFile.delete().where(tables.StandingFile.path == path))


def forget_standing_lines(tx: Tx, is_kept: Callable[[str], bool]) -> None:
    """Take lines out of what was read. Hashes stay, so that they are not kept when the file is read again."""
    for file in list_standing_files(tx):
        gone = [line for line in file.text.splitlines() if not is_kept(line)]
        if gone:
            hashes = [*json.loads(file.forgotten), *map(_hash, gone)][-MAX_FORGOTTEN_LINES:]
            changed = tables.StandingFile.update(
                text=_without(file.text, set(hashes)), forgotten=json.dumps(hashes), read_at_ms=tx.now_ms()
            )
            tx.run(changed.where(tables.StandingFile.path == file.path))


def forget_standing_files(tx: Tx, project_id: int) -> None:
    """Delete what was read of a project's files."""
    tx.run(tables.StandingFile.delete().where(tables.StandingFile.project == project_id))


def _without(text: str, hashes: Collection[str]) -> str:
    if not hashes:
        return text
    return "\n".join(line for line in text.splitlines() if _hash(line) not in hashes)


def _hash(line: str) -> str:
    return hashlib.sha256(" ".join(line.split()).encode()).hexdigest()[:16]


@prepared
def _of_project(project_id: int) -> Query:
    project = tables.StandingFile.project
    return _FILES.select().where(project.is_null() | (project == project_id)).order_by(tables.StandingFile.path)


@prepared
def _watermark() -> Query:
    file = tables.StandingFile
    return file.select(
        fn.COALESCE(fn.MAX(file.read_at_ms), 0).alias("latest"),
        fn.COUNT(file.id).alias("number"),
        fn.COALESCE(fn.MAX(file.changed_at_ns), 0).alias("changed_at_ns"),
    )
