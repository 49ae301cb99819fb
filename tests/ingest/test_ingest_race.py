"""What was read and how far commit together: any number of readers may race and be killed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from growing_transcript import Content, Ingest, MakeTranscript, Transcript, Turns

from engram.enums import Actor
from engram.errors import Conflict, StoreError
from engram.forgetting.whole_project import forget_project
from engram.ingest import read_portion, write_portion
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store, Tx
from engram.models.forgetting.erase_project import erase_turns
from engram.models.open_memory import open_store
from engram.models.projects.projects import list_projects
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.transcripts.turns import Opening
from tests.forked import run_forked

POINTS = ("ingest.read", "ingest.begin", "ingest.turns", "ingest.cursor", "ingest.committed")


def fill(transcript: Transcript, count: int = 12) -> None:
    for number in range(count):
        transcript.user(f"prompt {number}")
        transcript.says(f"reply {number}")


def interleave(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do ``act`` once, after this reader has read and before it writes."""
    real, waiting = read_portion.write_portion, [act]

    def overtaken(*given: Any) -> Any:
        if waiting:
            waiting.pop()()
        return real(*given)

    monkeypatch.setattr(read_portion, "write_portion", overtaken)


def test_of_two_readers_one_wins_and_the_other_reads_on(
    transcript: Transcript,
    ingest: Ingest,
    content: Content,
    turns: Turns,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(transcript)
    interleave(monkeypatch, lambda: ingest(transcript))

    result = ingest(transcript)

    assert result.new_turns == 0
    assert len(turns()) == 12
    assert store.value("SELECT message_count FROM session") == 24
    assert all(stored.revision == 1 for stored in turns())


def test_without_the_comparison_racing_readers_would_count_twice(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check above has teeth: take the compare-and-set out, and what it asserts is no longer true."""
    fill(transcript)
    monkeypatch.setattr(write_portion, "move_cursor", unchecked)
    interleave(monkeypatch, lambda: ingest(transcript))

    ingest(transcript)

    assert store.value("SELECT message_count FROM session") > 24 or any(stored.revision > 1 for stored in turns())


def unchecked(tx: Tx, before: Any, after: Any, transcript_id: int) -> None:
    """Move the cursor whatever happened meanwhile."""
    tx.run(
        "UPDATE transcript SET cursor = ?, cursor_words = ? WHERE id = ?",
        (after.cursor.position, after.cursor.words, transcript_id),
    )


def test_an_entry_that_went_to_another_file_meanwhile_stays_there(
    make_transcript: MakeTranscript, ingest: Ingest, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, fork = make_transcript("parent"), make_transcript("fork")
    parent.user("go", uuid="u1")
    parent.says("step", uuid="u2")
    fork.text(parent.path.read_text())
    interleave(monkeypatch, lambda: ingest(fork))

    ingest(parent)

    (stored,) = turns()
    assert stored.turn.session_id == "fork"


def test_what_is_forgotten_while_a_portion_is_read_is_not_stored(
    transcript: Transcript, ingest: Ingest, turns: Turns, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader asks its questions before this, so that it cannot know; the transaction that writes must."""
    transcript.user("go")
    ingest(transcript)
    transcript.user("a secret plan", uuid="u2")
    ingest(transcript)
    transcript.says("more about the plan")

    def forget() -> None:
        with open_store(settings.home / "memory.db") as other, other.transaction() as tx:
            erase_turns(tx, [int(other.value("SELECT max(id) FROM turn"))])

    interleave(monkeypatch, forget)
    ingest(transcript)

    assert [block.text for stored in turns() for block in stored.turn.said] == ["go", "more about the plan"]
    assert [stored.turn.opening for stored in turns()] == [Opening.PROMPT, Opening.CONTINUATION]


def test_a_project_that_is_forgotten_while_a_portion_is_read_stays_forgotten(
    transcript: Transcript,
    ingest: Ingest,
    turns: Turns,
    settings: Settings,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transcript.user("a secret plan")
    ingest(transcript)
    transcript.says("more about the plan")
    clock.at_ms = transcript.at_ms + 60_000

    def forget() -> None:
        with open_store(settings.home / "memory.db", clock=clock) as other:
            (project,) = list_projects(other)
            forget_project(other, settings.places, project, actor=Actor.USER)

    interleave(monkeypatch, forget)
    ingest(transcript)

    assert turns() == []


def test_a_reader_that_is_always_overtaken_gives_up(
    transcript: Transcript, ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(*_: Any) -> None:
        raise Conflict()

    transcript.user("go")
    monkeypatch.setattr(read_portion, "write_portion", moved)

    with pytest.raises(Conflict):
        ingest(transcript)


def test_a_failing_write_moves_nothing(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("disk is full")

    fill(transcript)
    with monkeypatch.context() as patch:
        patch.setattr(write_portion, "move_cursor", full)
        with pytest.raises(StoreError):
            ingest(transcript)
    before = (turns(), store.value("SELECT count(*) FROM transcript"), store.value("SELECT count(*) FROM work"))

    ingest(transcript)

    assert before == ([], 0, 0)
    assert len(turns()) == 12


def test_many_threads_store_everything_once(
    transcript: Transcript, settings: Settings, turns: Turns, store: Store
) -> None:
    fill(transcript, 30)
    errors: list[Exception] = []

    def read() -> None:
        mine = open_store(settings.home / "memory.db")
        try:
            ingest_path(mine, transcript.path, settings=settings, redact=redact, max_bytes=700)
        except Exception as error:  # noqa: BLE001 - reported by the assertion below
            errors.append(error)
        finally:
            mine.close()

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert errors == []
    assert [stored.turn.prompt for stored in turns()] == [f"prompt {number}" for number in range(30)]
    assert [stored.turn.reply for stored in turns()] == [f"reply {number}" for number in range(30)]
    assert store.value("SELECT message_count FROM session") == 60
    assert store.find_damage() == ""


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("passes", [1, 3])
def test_a_kill_at_any_point_loses_and_doubles_nothing(
    transcript: Transcript, settings: Settings, turns: Turns, store: Store, point: str, passes: int
) -> None:
    fill(transcript, 6)
    store.close()

    def read_in_portions() -> None:
        ingest_path(store, transcript.path, settings=settings, redact=lambda text, _: text, max_bytes=300)

    killed = run_forked(read_in_portions, f"{point}:{passes}")
    assert run_forked(read_in_portions) == 0

    assert killed == -signal.SIGKILL
    assert [stored.turn.prompt for stored in turns()] == [f"prompt {number}" for number in range(6)]
    assert [stored.turn.reply for stored in turns()] == [f"reply {number}" for number in range(6)]
    assert store.value("SELECT message_count FROM session") == 12
    assert store.find_damage() == ""
