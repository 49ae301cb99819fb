"""Turns become memories, once; a turn that grows changes its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from transcript_lines import say

from bench.storing import load_vectors
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Importance, Kind, Status
from engram.errors import RetryLater
from engram.extraction.candidate import Candidate, ExtractionContext
from engram.extraction.extracting import ExtractReport, extract_session
from engram.extraction.turn_batches import BATCH_TURNS
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import change_memory, delete_memory
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import all_memories, evidence_of
from engram.models.sessions.sessions import find_session
from engram.models.work.work import WorkState, find_work
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.transcripts.turns import Turn
from tests.empty_memory import open_empty

SESSION = "11111111-2222-3333-4444-555555555555"
NOW_MS = 1_780_000_000_000


class Lines:
    """An extractor that makes one candidate of each line of a reply that begins with ``keep``."""

    name = "lines-1"

    def __init__(self) -> None:
        self.contexts: list[ExtractionContext] = []

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        self.contexts.append(context)
        return [
            Candidate(
                Kind.FACT,
                line,
                f"{line} of {turn.message_count}",
                tuple(s.uuid for s in turn.said if line in s.text),
                (turn.key,),
                status=Status.PROVISIONAL,
                importance=Importance.NORMAL,
                entities=("demo.py",),
            )
            for turn in turns
            for line in turn.reply.splitlines()
            if line.startswith("keep")
        ]


class Session:
    """One growing transcript, read and extracted on demand."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings, self.extractor = store, settings, Lines()
        self.path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)

    def say(self, role: str, text: str) -> str:
        entry = say(self.path, role, text)
        ingest_path(self.store, self.path, settings=self.settings, redact=redact)
        return entry

    def extract(self, **changes: Any) -> ExtractReport:
        return extract_session(
            self.store,
            SESSION,
            extractor=self.extractor,
            embedder=HashedEmbedder(),
            settings=dataclasses.replace(self.settings, **changes),
        )

    def live(self) -> list[str]:
        return [e.summary for e in all_memories(self.store) if e.status in ("active", "provisional")]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", extract_first_messages=2)
    settings.home.mkdir()
    with open_empty(settings.places.memory_db, clock=FixedClock(NOW_MS)) as store:
        yield Session(store, settings)


def test_a_turn_becomes_memories_with_evidence_vector_and_time_of_what_was_said(session: Session) -> None:
    session.say("user", "What holds?")
    entry = session.say("assistant", "keep this")

    report = session.extract()

    (memory,) = all_memories(session.store)
    (evidence,) = evidence_of(session.store, memory.id)
    assert (report.turns, report.new) == (1, 1)
    assert (memory.summary, memory.session_id, memory.extractor) == ("keep this", SESSION, "lines-1")
    assert (evidence.uuid, evidence.session_id) == (entry, SESSION)
    assert memory.created_at_ms == 1_777_629_600_000
    assert [row_id for row_id, *_ in load_vectors(session.store, "e", HashedEmbedder().model_id)] == [memory.id]


def test_extracting_again_changes_nothing(session: Session) -> None:
    session.say("user", "What holds?")
    session.say("assistant", "keep this")
    session.extract()
    before = all_memories(session.store)

    report = session.extract()

    assert not report.has_changed
    assert all_memories(session.store) == before


def test_the_work_is_done_and_the_session_has_moved_on(session: Session) -> None:
    session.say("user", "What holds?")
    session.say("assistant", "keep this")
    work = find_work(session.store, "extract", SESSION)
    assert work is not None
    assert work.state is WorkState.DUE

    session.extract()

    done, row = find_work(session.store, "extract", SESSION), find_session(session.store, SESSION)
    assert done is not None
    assert row is not None
    assert done.state is WorkState.DONE
    assert (row.extracted_messages, row.extractions) == (2, 1)


def test_a_turn_that_grows_updates_adds_and_archives_its_own(session: Session) -> None:
    session.say("user", "What holds?")
    session.say("assistant", "keep one\nkeep two")
    session.extract()
    (first, second) = all_memories(session.store)
    session.extractor.propose = only("keep one", "keep three")  # type: ignore[method-assign]
    session.say("assistant", "keep three")

    report = session.extract()

    assert (report.new, report.updated, report.archived) == (1, 1, 1)
    assert session.live() == ["keep one", "keep three"]
    assert history_of(session.store, second.episode_id)[-1].reason == "the turn went on"
    assert history_of(session.store, first.episode_id)[-1].reason == "the turn went on"
    assert len(load_vectors(session.store, "e", HashedEmbedder().model_id)) == 3


def only(*wanted: str) -> Any:
    """A ``propose`` that keeps just these lines."""

    def propose(turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        return [c for c in Lines().propose(turns, context) if c.summary in wanted]

    return propose


def test_what_was_archived_because_the_turn_grew_comes_back_when_it_is_proposed_again(session: Session) -> None:
    session.say("user", "What holds?")
    session.say("assistant", "keep one\nkeep two")
    session.extract()
    session.extractor.propose = only("keep one")  # type: ignore[method-assign]
    session.say("assistant", "hm")
    session.extract()
    del session.extractor.propose  # type: ignore[method-assign]
    session.say("assistant", "well")

    session.extract()

    assert session.live() == ["keep one", "keep two"]
    assert len(all_memories(session.store)) == 2


def test_what_the_user_changed_by_hand_or_pinned_stays(session: Session) -> None:
    session.say("user", "What holds?")
    session.say("assistant", "keep one\nkeep two")
    session.extract()
    edited, pinned = all_memories(session.store)
    with session.store.transaction() as tx:
        change_memory(tx, edited, "edit", "by hand", content="my own words", actor=Actor.USER)
        change_memory(tx, pinned, "pin", "by hand", is_pinned=True, actor=Actor.USER)
    session.extractor.propose = only()  # type: ignore[method-assign]
    session.say("assistant", "and more")

    session.extract()

    assert session.live() == ["keep one", "keep two"]
    assert all_memories(session.store)[0].content == "my own words"


def test_what_was_forgotten_does_not_come_back(session: Session) -> None:
    session.say("user", "What holds?")
    session.say("assistant", "keep one")
    session.extract()
    with session.store.transaction() as tx:
        delete_memory(tx, all_memories(session.store)[0], actor=Actor.USER)
    session.say("assistant", "more")

    report = session.extract()

    assert all_memories(session.store) == []
    assert report.left_out == 1


def test_the_cap_of_an_hour_holds(session: Session) -> None:
    session.say("user", "What holds?")
    session.say("assistant", "\n".join(f"keep {n}" for n in range(9)))

    report = session.extract(hourly_memories=4)

    assert (report.new, report.left_out) == (4, 5)


def test_the_extractor_is_told_what_other_turns_left(session: Session) -> None:
    session.say("user", "What holds?")
    session.say("assistant", "keep one")
    session.extract()
    session.say("user", "And then?")
    session.say("assistant", "keep two")

    session.extract()

    context = session.extractor.contexts[-1]
    assert (context.known, context.kept_before, context.session_cap) == (("keep one",), 1, 60)


def test_a_failed_extraction_leaves_everything_due(session: Session) -> None:
    session.say("user", "What holds?")
    session.say("assistant", "keep one")

    def fail(turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        raise RetryLater("busy")

    session.extractor.propose = fail  # type: ignore[method-assign]
    with pytest.raises(RetryLater):
        session.extract()

    work = find_work(session.store, "extract", SESSION)
    assert work is not None
    assert work.state is WorkState.DUE
    assert session.store.value("SELECT extracted_revision FROM turn") == 0


def test_a_long_session_is_extracted_in_batches(session: Session) -> None:
    for number in range(BATCH_TURNS + 5):
        session.say("user", f"Question {number}?")
        session.say("assistant", f"keep {number}")

    report = session.extract(session_memories=1000)

    assert (report.turns, report.new) == (BATCH_TURNS + 5, BATCH_TURNS + 5)
    assert len(session.extractor.contexts) == 2


def test_an_unknown_session_is_nothing_to_do(session: Session) -> None:
    report = extract_session(
        session.store, "nobody", extractor=session.extractor, embedder=None, settings=session.settings
    )

    assert report == ExtractReport("nobody")
