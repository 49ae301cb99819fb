"""An export of a damaged memory is never empty with success: it fails, after what can be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engram.cli.main import engram
from engram.enums import Actor, Scope
from engram.exchange.importing import Outcome
from engram.exchange.other_programs import open_source
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.redaction import redact
from engram.settings import Settings
from tests.exchange.exports import import_into

COUNT = 30
PAGE = 4096
#: A page of a table without rows, and one of an index: valid to SQLite, and nothing is in it.
EMPTY_PAGES = (bytes((0x0D, 0, 0, 0, 0, 0x10, 0, 0)), bytes((0x0A, 0, 0, 0, 0, 0x10, 0, 0)))


@pytest.fixture
def memory(settings: Settings) -> Path:
    """The file of a closed memory with saved memories, whole in memory.db."""
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        for number in range(COUNT):
            text = f"Saved rule {number}: the lantern of pier {number} has {number + 2} doors."
            save_memory(store, text, redact, scope=Scope.GLOBAL, actor=Actor.USER)
        store.checkpoint("TRUNCATE")
    return settings.places.memory_db


def export(memory: Path, *options: str) -> Result:
    return CliRunner().invoke(engram, ["--home", str(memory.parent), "export", *options])


def memories_in(text: str) -> int:
    return sum("summary" in json.loads(line) for line in text.splitlines() if line.startswith("{"))


def put(memory: Path, data: bytes) -> None:
    for name in (memory, *(memory.with_name(memory.name + end) for end in ("-wal", "-shm"))):
        name.unlink(missing_ok=True)
    memory.write_bytes(data)


def test_a_sound_memory_is_exported_whole(memory: Path) -> None:
    done = export(memory)

    assert (done.exit_code, memories_in(done.stdout)) == (0, COUNT)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"x",
        lambda data: data[:100],
        lambda data: data[:511],
        lambda data: data[:PAGE],
        lambda data: data[: len(data) // 2 // PAGE * PAGE],
        lambda data: bytes(len(data)),
    ],
    ids=["emptied", "one byte", "the header", "half a page", "one page", "half", "zeros"],
)
def test_a_file_that_was_cut_or_emptied_is_not_an_empty_memory(memory: Path, damage: Callable[[bytes], bytes]) -> None:
    put(memory, damage(memory.read_bytes()))

    done = export(memory)

    assert (done.exit_code, memories_in(done.stdout)) == (1, 0)
    assert "damaged" in done.stderr


def test_no_page_can_be_emptied_without_being_missed(memory: Path, settings: Settings) -> None:
    """Every page that holds rows of memories, in turn."""
    sound = memory.read_bytes()
    with open_store(memory, driver=settings.sqlite_driver) as store:
        roots = {
            int(page)
            for (page,) in store.rows("SELECT rootpage FROM sqlite_master WHERE tbl_name IN ('episode', 'history')")
        }
    tried = 0
    for page in range(1, len(sound) // PAGE):
        start = page * PAGE
        if page + 1 not in roots and b"Saved rule" not in sound[start : start + PAGE]:
            continue
        for emptied in (*EMPTY_PAGES, bytes(PAGE)):
            put(memory, sound[:start] + emptied + sound[start + len(emptied) :])
            done = export(memory)
            assert done.exit_code == 1 or memories_in(done.stdout) == COUNT, (page, emptied[:1], done.output)
            tried += 1
    assert tried >= 10


def test_what_can_be_read_is_exported_before_it_fails(memory: Path, settings: Settings, tmp_path: Path) -> None:
    with open_store(memory, driver=settings.sqlite_driver) as store:
        (root,) = store.rows("SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'history' LIMIT 1")
    data = memory.read_bytes()
    start = (int(root[0]) - 1) * PAGE
    put(memory, data[:start] + EMPTY_PAGES[1] + data[start + len(EMPTY_PAGES[1]) :])
    target = tmp_path / "export.jsonl"

    done, into_file = export(memory), export(memory, "--output", str(target))

    assert (done.exit_code, into_file.exit_code) == (1, 1)
    assert "may lack memories" in done.stderr
    assert memories_in(done.stdout) == memories_in(target.read_text()) == COUNT


def test_a_memory_without_memories_says_so(settings: Settings) -> None:
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver):
        pass

    done = export(settings.places.memory_db)

    assert (done.exit_code, done.stdout) == (0, "")
    assert "no memories" in done.stderr


@pytest.mark.parametrize("torn", ['{"id": "ep_', "\xff\xfe", "[1]"])
def test_of_an_export_that_was_cut_off_all_whole_lines_come_in(
    memory: Path, tmp_path: Path, other: Store, other_settings: Settings, torn: str
) -> None:
    whole = export(memory).stdout
    file = tmp_path / "export.jsonl"
    file.write_bytes(whole.encode() + torn.encode("latin-1"))

    with open_source(file, None, other_settings, has_project=False, is_global=False) as source:
        report = import_into(other, other_settings, source, is_mine=True)

    assert (report.counts[Outcome.ADDED], report.counts[Outcome.BAD]) == (COUNT, 1)
    assert report.problems[0].where == f"line {COUNT + 1}"


def test_an_unreadable_list_of_forgotten_items_does_not_keep_the_memories_out(
    memory: Path, tmp_path: Path, other: Store, other_settings: Settings
) -> None:
    folder = tmp_path / "export"
    assert export(memory, "--format", "markdown", "--output", str(folder)).exit_code == 0
    (folder / "forgotten.md").write_text('---\nengram: 1\nkind: "forgotten"\ntombstones:\n  - {"kind": "new"}\n---\n')

    with open_source(folder, None, other_settings, has_project=False, is_global=False) as source:
        report = import_into(other, other_settings, source, is_mine=True)

    assert (report.counts[Outcome.ADDED], report.counts[Outcome.BAD]) == (COUNT, 1)
