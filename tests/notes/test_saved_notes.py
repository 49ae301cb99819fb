"""A saved note stays, whatever else writes to its file, however large its file is, and wherever an earlier version put
it.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from showing import show_and_use

from engram.consolidation.graduation import graduate
from engram.consolidation.step_context import Context
from engram.enums import Actor, Scope
from engram.errors import BadRequest
from engram.forgetting.forget import forget_memory
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.projects.projects import ensure_project
from engram.models.search.fulltext import search_notes
from engram.notes.daily_log import (
    MAX_DAY_BYTES,
    append_to_day,
    files_of_day,
    log_session,
    move_saved_notes,
    notes_lock,
    save_note,
    split_log,
)
from engram.notes.note_index import cut_markdown, find_notes, index_notes, read_lines
from engram.notes.user_files import read_standing_files
from engram.paths import Home
from engram.redaction import redact
from engram.search.passages.passage_search import readable_notes
from engram.settings import Settings

#: Says ``(role, text, time)`` in the session "s1" and reads it.
Speak = Callable[[str, str, str], None]
WRITER = """
import sys
from engram.notes.daily_log import save_note
from engram.paths import Home, default_home
print("ready", flush=True)
sys.stdin.readline()
for number in range(60):
    save_note(Home(default_home()), f"note {sys.argv[1]}-{number}.", lambda text: text, 0)
"""
GRADUATOR = """
import sys
from engram.notes.daily_log import notes_lock, read_text, write_text
from engram.paths import Home, default_home
home = Home(default_home())
print("ready", flush=True)
sys.stdin.readline()
for number in range(60):
    with notes_lock(home):
        write_text(home.memory_note, read_text(home.memory_note) + f"- line {sys.argv[1]}-{number}.\\n")
"""


def saved_text(home: Home) -> str:
    return "\n".join(path.read_text() for path in sorted(home.saved_notes.iterdir()))


def run_two(program: str) -> None:
    """Run the program twice; both begin to write once both are ready."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in "ab"
    ]
    assert [writer.stdout.readline() for writer in writers if writer.stdout] == ["ready\n"] * 2
    for writer in writers:
        if writer.stdin:
            writer.stdin.write("go\n")
            writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=120)
    assert [writer.returncode for writer in writers] == [0, 0]


def test_two_processes_that_save_sixty_notes_each_keep_all(home: Home) -> None:
    run_two(WRITER)

    text = saved_text(home)
    assert [f"{name}-{number}" for name in "ab" for number in range(60) if f"note {name}-{number}." not in text] == []


def test_two_processes_that_rewrite_one_note_lose_nothing(home: Home) -> None:
    run_two(GRADUATOR)

    text = home.memory_note.read_text()
    assert text.count("- line ") == 120


def test_a_session_that_is_logged_again_leaves_saved_notes_alone(home: Home, memory: Store, speak: Speak) -> None:
    at_ms = 1_777_629_600_000
    speak("user", "Where does the zebra live?", "2026-05-01T10:00:00.000Z")
    log_session(memory, home, "s1")
    save_note(home, "The zebra lives in hall 9.", redact, at_ms)
    speak("assistant", "In a hall.", "2026-05-01T10:01:00.000Z")
    speak("user", "And the walrus?", "2026-05-01T10:02:00.000Z")
    log_session(memory, home, "s1")

    assert "hall 9" in saved_text(home)
    assert "And the walrus?" in "".join(path.read_text() for path in home.daily_notes.iterdir())


def test_a_full_file_continues_in_a_further_one_and_is_not_cut(home: Home) -> None:
    notes = [f"note {number}. " + "x" * 19_000 for number in range(60)]
    for note in notes:
        save_note(home, note, str, 0)

    files = files_of_day(home.saved_notes, next(home.saved_notes.iterdir()).name[:10])
    assert len(files) == 3
    assert all(path.stat().st_size <= MAX_DAY_BYTES for path in files)
    text = saved_text(home)
    assert [note[:9] for note in notes if note not in text] == []


@pytest.mark.parametrize("kind", ["link", "too large", "folder"])
def test_a_file_that_cannot_be_read_whole_is_left_as_it_is(kind: str, home: Home, tmp_path: Path) -> None:
    path = append_to_day(home.saved_notes, "1970-01-01", "Saved", "first")
    path.unlink()
    if kind == "link":
        (tmp_path / "elsewhere.md").write_text("mine")
        path.symlink_to(tmp_path / "elsewhere.md")
    elif kind == "too large":
        with path.open("wb") as file:
            file.truncate(30_000_000)
    else:
        path.mkdir()
    before = path.lstat()

    further = append_to_day(home.saved_notes, "1970-01-01", "Saved", "second")

    assert further.name == "1970-01-01-2.md"
    assert (path.lstat().st_ino, path.lstat().st_size) == (before.st_ino, before.st_size)


def test_a_note_is_found_read_and_forgotten_in_its_own_file(home: Home, memory: Store) -> None:
    settings = Settings(home=home.root)
    path = save_note(home, "The walrus sleeps\n# Where\nin the boathouse of the harbour.", redact, 0, project="zoo")
    index_notes(memory, settings, redact)

    source = f"saved/{path.name}"
    text = read_lines(memory, settings, redact, source)
    assert "## zoo\n" in text
    assert "walrus sleeps" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    headings = {chunk.heading.split(" › ")[1] for chunk in cut_markdown(path.read_text())}
    assert headings == {"zoo"}

    kept = save_memory(memory, "in the boathouse of the harbour.", redact, scope="global", actor=Actor.AGENT)
    forget_memory(memory, home, kept.episode_id, also_source=True, actor=Actor.USER)
    assert "boathouse" not in path.read_text()
    assert "walrus sleeps" in path.read_text()


def test_a_note_with_an_open_fence_does_not_swallow_the_next_one(home: Home) -> None:
    save_note(home, "```\nmake release", redact, 0, project="one")
    path = save_note(home, "the second", redact, 0, project="two")

    headings = [chunk.heading.split(" › ")[-1] for chunk in cut_markdown(path.read_text())]
    assert headings == ["one", "two"]


def test_empty_and_endless_notes_are_refused(home: Home) -> None:
    for text in ("", " \n", "x" * 20_001):
        with pytest.raises(BadRequest):
            save_note(home, text, str, 0)
    assert list(home.saved_notes.iterdir()) == []


#: A log as an earlier version left it: notes at the end, then a section of another session, then one more note in it.
OLD_LOG = """# 2026-05-01

## demo
<!-- session s1 -->

Asked:
- Where does the zebra live?

Changed:
- `a.py`

## Saved

The zebra lives in hall 9.

## demo
<!-- session s2 -->

Asked:
- And the walrus?

Left open:
- `make test` failed

The walrus sleeps in the boathouse.

- a list that somebody saved

## A heading inside a saved note

with its text.

## demo
<!-- session s3 -->

Asked:
- And the third?
"""
SAVED_BEFORE = (
    "The zebra lives in hall 9.",
    "The walrus sleeps in the boathouse.",
    "- a list that somebody saved",
    "## A heading inside a saved note",
    "with its text.",
)


def test_notes_inside_an_old_log_move_to_their_own_file_and_the_log_stays(home: Home) -> None:
    log = home.daily_notes / "2026-05-01.md"
    log.write_text(OLD_LOG)

    assert move_saved_notes(home) == 1
    assert move_saved_notes(home) == 0

    saved, left = saved_text(home), log.read_text()
    assert [text for text in SAVED_BEFORE if text not in saved] == []
    assert [text for text in SAVED_BEFORE if text in left] == []
    assert left.count("<!-- session ") == 3
    assert [line for line in ("- `a.py`", "- `make test` failed", "- And the third?") if line not in left] == []
    assert split_log(left)[1] == ""


def test_notes_inside_an_old_log_survive_a_new_log_and_a_forgotten_turn(
    home: Home, memory: Store, speak: Speak
) -> None:
    (home.daily_notes / "2026-05-01.md").write_text(OLD_LOG)
    speak("user", "We always keep the zebra in hall number nine of the northern zoo.", "2026-05-01T10:00:00.000Z")
    kept = save_memory(
        memory,
        "We always keep the zebra in hall number nine.",
        redact,
        scope="global",
        session_id="s1",
        actor=Actor.AGENT,
    )

    log_session(memory, home, "s1")
    forget_memory(memory, home, kept.episode_id, also_source=True, actor=Actor.USER)

    assert [text for text in SAVED_BEFORE if text not in saved_text(home)] == []


def test_what_a_person_wrote_into_a_log_stays_there(home: Home, memory: Store, speak: Speak) -> None:
    log = home.daily_notes / "2026-05-01.md"
    log.write_text("# 2026-05-01\n\nmy own words\n\n## My plans\n\nbuy a boat\n")
    speak("user", "Where does the zebra live?", "2026-05-01T10:00:00.000Z")
    log_session(memory, home, "s1")
    speak("user", "And the walrus?", "2026-05-01T10:02:00.000Z")
    log_session(memory, home, "s1")

    text = log.read_text()
    assert text.startswith("# 2026-05-01\n\nmy own words\n\n## My plans\n\nbuy a boat\n")
    assert text.count("<!-- session s1 -->") == 1
    assert "And the walrus?" in text


@pytest.mark.parametrize("content", [b"# Memory\n\xff\xfe not UTF-8\n", None])
def test_a_memory_note_that_cannot_be_rewritten_is_left_alone(
    content: bytes | None, home: Home, memory: Store, tmp_path: Path
) -> None:
    if content is None:
        (tmp_path / "mine.md").write_text("# Mine\n")
        home.memory_note.symlink_to(tmp_path / "mine.md")
    else:
        home.memory_note.write_bytes(content)
    made = save_memory(memory, "Use pnpm everywhere.", redact, scope="global", actor=Actor.USER)
    show_and_use(memory, made.episode_id)
    context = Context(memory, Settings(home=home.root))

    graduate(context)

    assert home.memory_note.is_symlink() == (content is None)
    assert home.memory_note.read_bytes() == (content or b"# Mine\n")
    assert "cannot be rewritten" in context.lines[0]


def test_a_reader_of_the_log_never_waits_and_a_writer_waits_for_the_other(home: Home) -> None:
    waiting = (
        "from engram.notes.daily_log import save_note; from engram.paths import Home, default_home; "
        "print('ready', flush=True); save_note(Home(default_home()), 'late', str, 0)"
    )
    with notes_lock(home):
        writer = subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        first = append_to_day(home.saved_notes, "1970-01-01", "Saved", "early")
    assert writer.wait(60) == 0
    writer.stdout.close()
    assert first.read_text().index("early") < first.read_text().index("late")
    assert [name for name in os.listdir(home.saved_notes) if name.endswith(".tmp")] == []


@pytest.mark.parametrize("form", ["{} {}", "- {} {}", "```\n{} {}\n```", "# heading {} {}\n\nWilhelmina said so."])
@pytest.mark.parametrize("way", ["saved", "removed"])
def test_a_note_that_ends_like_a_memorys_line_is_seen_only_in_its_project(
    home: Home, memory: Store, tmp_path: Path, form: str, way: str
) -> None:
    settings = Settings()
    everywhere = save_memory(memory, "Prices are in cents.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
    with memory.transaction() as tx:
        acme, other = (ensure_project(tx, str(tmp_path / name), name, str(tmp_path / name)) for name in ("acme", "oth"))
    text = form.format("The tariff of Wilhelmina is 17.", f"<!-- {everywhere.episode_id} -->")

    if way == "saved":
        save_note(home, text, redact, memory.now_ms(), acme.name)
    else:
        file = tmp_path / "acme" / "CLAUDE.md"
        file.parent.mkdir()
        file.write_text(f"{text}\n")
        read_standing_files(memory, settings, redact)
        file.write_text("Nothing is left of it.\n")
        read_standing_files(memory, settings, redact)
    index_notes(memory, settings, redact)

    (source,) = [source for source, _ in find_notes(settings) if source.startswith("saved/")]
    assert "Wilhelmina" in read_lines(memory, settings, redact, source, project_id=acme.id)
    assert "Wilhelmina" not in read_lines(memory, settings, redact, source, project_id=other.id)
    ids = [row_id for row_id, _ in search_notes(memory, ["Wilhelmina"], 9, project_id=acme.id)]
    assert ids
    assert not search_notes(memory, ["Wilhelmina"], 9, project_id=other.id)
    assert not readable_notes(memory, ids, other.id)
