"""The two compare-and-sets hold what is promised; taken out, the same race is lost: these tests would see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from transcript_lines import say

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Kind, Status
from engram.errors import Conflict
from engram.extraction import extracting as extraction
from engram.extraction.candidate import Candidate, ExtractionContext
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest import read_portion as ingest
from engram.ingest import write_portion as ingest_write
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store, Tx
from engram.models.memories.memory_records import all_memories
from engram.models.sessions.reading_progress import Progress
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts.turns import Turn

SESSION = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def transcript(settings: Settings) -> Path:
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.touch()
    say(path, "user", "Why does the importer stop?")
    say(path, "assistant", "It reads too far.")
    return path


class Growing:
    """An extractor during whose thinking time the turn grows."""

    name = "growing-1"

    def __init__(self, grow: Any) -> None:
        self._grow = [grow]

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        candidates = [
            Candidate(Kind.TURN, t.reply, t.reply, tuple(s.uuid for s in t.said), (t.key,), status=Status.ACTIVE)
            for t in turns
        ]
        if self._grow:
            self._grow.pop()()
        return candidates


def extract_while_it_grows(store: Store, settings: Settings, transcript: Path) -> list[str]:
    """Live summaries after an extraction during which the turn went on."""
    ingest_path(store, transcript, settings=settings, redact=redact)

    def go_on() -> None:
        say(transcript, "assistant", "No: the cursor is wrong.")
        ingest_path(store, transcript, settings=settings, redact=redact)

    extract_session(store, SESSION, extractor=Growing(go_on), embedder=None, settings=settings)
    return [str(value) for (value,) in store.rows("SELECT summary FROM episode WHERE status = 'active'")]


def test_a_turn_that_grows_while_it_is_extracted_is_extracted_as_it_ended(
    store: Store, settings: Settings, transcript: Path
) -> None:
    assert extract_while_it_grows(store, settings, transcript) == ["It reads too far.\n\nNo: the cursor is wrong."]


def test_a_session_that_never_stops_growing_is_extracted_up_to_its_last_turn(
    store: Store, settings: Settings, transcript: Path
) -> None:
    for number in range(3):
        say(transcript, "user", f"Always run make check{number} before you push.")
        say(transcript, "assistant", "Understood.")
    ingest_path(store, transcript, settings=settings, redact=redact)

    class Read(LocalExtractor):
        """An extractor during whose work the last turn always grows."""

        def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
            say(transcript, "assistant", "Go on.")
            ingest_path(store, transcript, settings=settings, redact=redact)
            return super().propose(turns, context)

    with pytest.raises(Conflict):
        extract_session(store, SESSION, extractor=Read(), embedder=HashedEmbedder(), settings=settings)

    assert [turn.is_due for turn in turns_of_session(store, 1)] == [False, False, False, True]
    kept = [(memory.id, memory.summary) for memory in all_memories(store)]
    assert [summary for _, summary in kept] == [f"Always run make check{number} before you push." for number in (0, 1)]
    assert store.value("SELECT count(*) FROM vector WHERE owner = 'e'") == len(kept)


def test_without_the_compare_and_set_on_the_revision_the_end_of_the_turn_would_be_lost(
    store: Store, settings: Settings, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_without_comparing(tx: Tx, revisions: Mapping[int, int]) -> None:
        tx.run_many("UPDATE turn SET extracted_revision = revision WHERE id = ?", [(row_id,) for row_id in revisions])

    monkeypatch.setattr(extraction, "mark_extracted", set_without_comparing)

    assert extract_while_it_grows(store, settings, transcript) == ["It reads too far."]


def read_while_another_reads(
    store: Store, settings: Settings, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int]:
    """Messages counted and turns stored when two readers read the same bytes at the same time."""
    others = [1]
    write = ingest_write.write_portion

    def slow_write(*arguments: Any, **named: Any) -> Any:
        if others:
            others.pop()
            ingest_path(store, transcript, settings=settings, redact=redact)
        return write(*arguments, **named)

    monkeypatch.setattr(ingest, "write_portion", slow_write)
    ingest_path(store, transcript, settings=settings, redact=redact)
    return (
        int(store.value("SELECT sum(message_count) FROM session")),
        int(store.value("SELECT count(*) FROM turn")),
    )


def test_of_two_readers_of_the_same_bytes_one_wins(
    store: Store, settings: Settings, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_while_another_reads(store, settings, transcript, monkeypatch) == (2, 1)


def test_without_the_compare_and_set_on_the_cursor_the_messages_would_count_twice(
    store: Store, settings: Settings, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move_without_comparing(tx: Tx, before: Progress, after: Progress, transcript_id: int) -> None:
        tx.run(
            "UPDATE transcript SET cursor = ?, cursor_words = ? WHERE id = ?",
            (after.cursor.position, after.cursor.words, transcript_id),
        )

    monkeypatch.setattr(ingest_write, "move_cursor", move_without_comparing)

    assert read_while_another_reads(store, settings, transcript, monkeypatch) == (4, 1)


def test_two_extractions_of_the_same_turn_keep_one_memory(store: Store, settings: Settings, transcript: Path) -> None:
    ingest_path(store, transcript, settings=settings, redact=redact)

    def another() -> None:
        extract_session(store, SESSION, extractor=Growing(lambda: None), embedder=None, settings=settings)

    extract_session(store, SESSION, extractor=Growing(another), embedder=None, settings=settings)

    assert store.value("SELECT count(*) FROM episode") == 1
