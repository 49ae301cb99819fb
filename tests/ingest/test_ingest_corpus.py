"""Real sessions in a real database: the same prompts and entries in any order, cut anywhere, however often."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest

from engram.ingest.read_sources import ingest_path
from engram.models.engine.statement import unpack_entries
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.settings import Settings

pytestmark = pytest.mark.corpus

PROJECTS = ("JanDeDobbeleer__oh-my-posh", "marot__spotter", "moredip__session-share")


def plain(text: str, known: Any) -> str:
    """No redaction: it has its own tests, and costs time here."""
    return text


@pytest.fixture(scope="module")
def files(corpus: Path) -> list[tuple[Path, list[int]]]:
    """Session files of some projects, with their growth marks; among them a family of forks."""
    with (corpus / "manifest.tsv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["kind"] == "session"]
    return [
        (corpus / row["file"], [int(mark) for mark in row["growth_marks"].split(",") if mark])
        for row in rows
        if row["project"] in PROJECTS
    ]


def read(store: Store, settings: Settings, path: Path) -> int:
    return sum(result.bytes_read for result in ingest_path(store, path, settings=settings, redact=plain))


def prompts(store: Store) -> list[Any]:
    return store.rows(
        "SELECT s.text FROM said s JOIN turn t ON t.id = s.turn_id WHERE s.role = 'user' AND t.opening != "
        "'continuation' ORDER BY 1"
    )


def uuids(store: Store) -> list[Any]:
    packed = store.rows("SELECT entries FROM turn")
    return sorted(entry.uuid for (value,) in packed for entry in unpack_entries(bytes(value)))


@pytest.fixture(scope="module")
def whole(files: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], list[Any]]:
    """Prompts and entries of everything read once, in the order of the manifest."""
    home = tmp_path_factory.mktemp("whole")
    store = open_store(home / "memory.db")
    settings = Settings(home=home)
    for path, _ in files:
        read(store, settings, path)
    found = prompts(store), uuids(store)
    assert sum(read(store, settings, path) for path, _ in files) == 0, "reading again finds nothing"
    assert store.find_damage() == ""
    store.close()
    return found


def test_the_order_of_files_does_not_matter_in_the_database(
    files: Any, whole: Any, store: Store, settings: Settings
) -> None:
    shuffled = list(files)
    random.Random(3).shuffle(shuffled)

    for path, _ in shuffled:
        read(store, settings, path)

    assert (prompts(store), uuids(store)) == whole


def test_cut_at_growth_marks_and_anywhere_the_database_holds_the_same(
    files: Any, whole: Any, store: Store, settings: Settings, tmp_path: Path
) -> None:
    chosen = random.Random(5)
    for path, marks in files:
        copy = tmp_path / "claude" / path.name
        copy.parent.mkdir(exist_ok=True)
        content = path.read_bytes()
        stops = sorted({*marks, *(chosen.randrange(len(content)) for _ in range(3)), len(content)})
        for start, stop in zip([0, *stops], stops, strict=False):
            with copy.open("ab") as file:
                file.write(content[start:stop])
            read(store, settings, copy)

    assert (prompts(store), uuids(store)) == whole
