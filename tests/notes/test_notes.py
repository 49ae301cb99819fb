"""Notes are cut by heading, indexed as the files are, and read back from inside their folders only."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

from engram.consolidation.graduation import MAX_BYTES, MAX_LINES, add_lines, within_limits
from engram.errors import BadRequest, NotFound
from engram.models.engine.transaction import Store
from engram.models.projects import notes
from engram.models.projects.notes import EVERYONE, NOBODY, Owner
from engram.models.search import fulltext
from engram.notes.daily_log import save_note
from engram.notes.note_index import cut_markdown, index_notes, owners_of_lines, read_lines
from engram.settings import Settings
from engram.system.clock import day_of


def masked(text: str) -> str:
    return text.replace("hunter2", "[secret]")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    mine = tmp_path / "mine"
    mine.mkdir()
    made = Settings(home=tmp_path / "home", note_folders=(str(mine),))
    made.places.prepare()
    return made


def test_a_chunk_carries_the_headings_above_it() -> None:
    chunks = cut_markdown("intro\n# Build\ntext\n## Linux\nuse make\n```\n# no heading\n```\n# Run\ngo\n")

    assert [(c.heading, c.start_line) for c in chunks] == [("", 1), ("Build", 3), ("Build › Linux", 5), ("Run", 10)]
    assert "# no heading" in chunks[2].text


def test_notes_are_found_changed_and_removed_as_the_files_are(store: Store, settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "mine" / "deploy.md"
    file.write_text("# Deploy\nthe zebra host, password hunter2\n")
    index_notes(store, settings, masked)
    assert fulltext.search_notes(store, ["zebra"], 5)
    assert not fulltext.search_notes(store, ["hunter2"], 5)

    file.write_text("# Deploy\nthe walrus host\n")
    index_notes(store, settings, masked)
    assert not fulltext.search_notes(store, ["zebra"], 5)
    assert fulltext.search_notes(store, ["walrus"], 5)

    file.unlink()
    report = index_notes(store, settings, masked)
    assert report.removed == 1
    assert not fulltext.search_notes(store, ["walrus"], 5)
    assert store.find_damage() == ""


def test_unchanged_notes_are_not_indexed_again(store: Store, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine" / "a.md").write_text("# A\ntext\n")
    index_notes(store, settings, masked)

    assert index_notes(store, settings, masked).changed == 0


def test_lines_of_a_note_come_redacted_by_its_printed_name(store: Store, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine" / "a.md").write_text("one\ntwo hunter2\nthree\n")
    index_notes(store, settings, masked)
    (name,) = [note.source for note in notes.list_notes(store)]

    assert name == "mine/a.md"
    assert read_lines(store, settings, masked, name, 2, 1) == "two [secret]"
    with pytest.raises(BadRequest):
        read_lines(store, settings, masked, name, 0)


def test_no_chunk_goes_over_from_one_owner_to_another() -> None:
    text = (
        "# 2026-11-22\nstray\n\n## alpha\n<!-- session s-1 -->\nAsked:\n- one\n\n## beta\n<!-- saved 10:00 -->\n\ntwo\n"
        "#### deeper\nthree\n```\n## gamma\n<!-- saved 10:00 -->\n```\n## mine\nfour\n- five <!-- ep_0000000000aa "
        "-->\nsix\n"
    )

    for source, unmarked in (("daily/2026-11-22.md", NOBODY), ("MEMORY.md", EVERYONE)):
        chunks = cut_markdown(text, owners=owners_of_lines(source, text.splitlines()))
        assert [(chunk.text.splitlines()[-1], chunk.owner) for chunk in chunks] == [
            ("stray", unmarked),
            ("- one", Owner("session", "s-1")),
            ("two", Owner("project", "beta")),
            ("```", Owner("project", "beta")),
            ("four", unmarked),
            ("- five <!-- ep_0000000000aa -->", Owner("memory", "ep_0000000000aa")),
            ("six", unmarked),
        ]


@pytest.mark.parametrize("source", ["../memory.db", "/etc/passwd", "mine/../../x.md", "mine/link.md", "", "a\0b"])
def test_nothing_outside_the_notes_folders_is_read(
    source: str, store: Store, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "outside.md").write_text("secret")
    os.symlink(tmp_path / "outside.md", tmp_path / "mine" / "link.md")

    with pytest.raises(NotFound):
        read_lines(store, settings, masked, source)


def test_a_saved_note_is_redacted_and_appended(settings: Settings) -> None:
    save_note(settings.places, "first hunter2", masked, 0, "alpha")
    path = save_note(settings.places, "second", masked, 0, "alpha")

    text = path.read_text()
    assert text.index("first [secret]") < text.index("second")
    assert path.parent == settings.places.saved_notes
    assert text.count("## alpha\n<!-- saved ") == 2
    assert oct(path.stat().st_mode)[-3:] == "600"


def test_memory_md_keeps_its_limits_and_its_preamble_and_moves_the_oldest_section() -> None:
    text = "# Memory\nmy own words\n"
    moved_all = ""
    for month in range(1, 13):
        for number in range(40):
            text, moved = within_limits(add_lines(text, f"2026-{month:02}", [f"- {month} {number} {'x' * 60}"]))
            moved_all += moved
            assert len(text.splitlines()) <= MAX_LINES
            assert len(text.encode()) <= MAX_BYTES
    assert text.startswith("# Memory\nmy own words\n")
    for month in range(1, 13):
        for number in range(40):
            assert f"- {month} {number} x" in text + moved_all


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("daily/2025-03-04.md", "2025-03-04"),
        ("daily/2025-03-04-2.md", "2025-03-04"),
        ("saved/2025-03-04.md", "2025-03-04"),
        ("earlier/daily/2025-03-04.md", "2025-03-04"),
        ("saved/2025-02-30.md", "2026-01-02"),
        ("plan-2025-03-04-of-mine.md", "2026-01-02"),
        ("MEMORY.md", "2026-01-02"),
    ],
)
def test_a_note_bears_the_day_in_its_name(name: str, day: str) -> None:
    changed = datetime(2026, 1, 2, 15).timestamp()

    chunk = fulltext.NoteRowText(1, name, f"/notes/{name}", "", "text", 1, int(changed * 1e9))

    assert day_of(chunk.at_ms) == day
