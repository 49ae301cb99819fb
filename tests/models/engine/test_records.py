"""A record and its table agree by name, or the program does not start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from peewee import fn

from engram.models import tables
from engram.models.engine.statement import RecordReader
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store


@dataclass(frozen=True, slots=True)
class Mark:
    """A bad line, with its columns in another order."""

    reason: str
    offset: int
    length: int
    generation: int
    transcript_id: int


@dataclass(frozen=True, slots=True)
class Place:
    """A transcript in few words."""

    is_gone: bool
    name: str
    size: int


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "memory.db") as opened:
        with opened.transaction() as tx:
            number = tx.insert(tables.Transcript.insert(path=b"/a/b.jsonl", size=7, is_gone=True))
            tx.insert_many(
                tables.BadLine,
                [
                    {"transcript_id": number, "generation": 1, "offset": 10 * n, "length": 3, "reason": f"r{n}"}
                    for n in range(2)
                ],
            )
        yield opened


def test_fields_are_filled_by_the_names_of_the_columns(store: Store) -> None:
    marks = RecordReader(Mark, tables.BadLine)

    found = store.fetch_records(marks, marks.select().order_by(tables.BadLine.offset))

    assert found == [Mark("r0", 0, 3, 1, 1), Mark("r1", 10, 3, 1, 1)]


def test_expressions_and_readers_make_other_fields_and_flags_become_bool(store: Store) -> None:
    places = RecordReader(
        Place,
        tables.Transcript,
        expressions={"name": fn.substr(tables.Transcript.path, 4)},
        readers={"name": lambda stored: bytes(stored).decode()},
        is_whole=False,
    )

    found = store.fetch_record(places, places.select())

    assert found == Place(is_gone=True, name="b.jsonl", size=7)
    assert found is not None
    assert isinstance(found.is_gone, bool)
    assert store.fetch_record(places, places.select().where(tables.Transcript.size > 9)) is None


def test_a_column_that_no_field_takes_is_an_error(store: Store) -> None:
    with pytest.raises(
        TypeError, match="Place and table transcript: no field for bytes_read, cursor, cursor_words, generation"
    ):
        RecordReader(Place, tables.Transcript, expressions={"name": tables.Transcript.path})


def test_a_field_that_no_column_gives_is_an_error() -> None:
    with pytest.raises(TypeError, match="Place and table transcript: no column for name"):
        RecordReader(Place, tables.Transcript, is_whole=False)


@pytest.mark.parametrize("wrong", [{"left_out": {"colour"}}, {"readers": {"colour": str}}])
def test_a_name_that_neither_has_is_an_error(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="neither has colour"):
        RecordReader(Mark, tables.BadLine, **wrong)  # type: ignore[arg-type]
