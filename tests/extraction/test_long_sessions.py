"""The work of an extraction grows with the number of a session's turns, not with its square."""

from __future__ import annotations

from dataclasses import replace

import pytest
from counted_calls import calls_of
from growing_transcript import Transcript

from engram.extraction import turn_batches
from engram.extraction.extracting import ExtractReport, extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.ingest.write_portion import extraction_due_at_ms
from engram.models.engine.transaction import Store
from engram.models.sessions import stored_turns
from engram.models.sessions.sessions import list_sessions
from engram.redaction import redact
from engram.settings import Settings


def mend(transcript: Transcript, number: int) -> None:
    """Write a turn in which a command fails and, after a change, passes."""
    transcript.user(f"The harbor crane {number} stands still.")
    transcript.calls("Bash", f"E{number} stands still", is_error=True, command=f"make crane{number % 5}")
    transcript.calls("Edit", "ok", file_path=f"/work/crane{number}.py")
    transcript.calls("Bash", "ok", command=f"make crane{number % 5}")
    transcript.says(f"Fixed: crane{number} stands still because crane{number}.py lacks its lock number {number}.")


class Sea:
    """Sessions of some length that are read and then extracted."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    def session(self, turns: int) -> str:
        """Read a session and return its id."""
        path = self.settings.projects_folder / "-work-sea" / f"{turns:08x}-0000-4000-8000-000000000000.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        transcript = Transcript(path, cwd="/work/sea")
        for number in range(turns):
            mend(transcript, 1_000 * turns + number)
        ingest_path(self.store, path, settings=self.settings, redact=redact)
        return path.stem

    def extract(self, session: str) -> ExtractReport:
        return extract_session(self.store, session, extractor=LocalExtractor(), embedder=None, settings=self.settings)


@pytest.fixture
def sea(store: Store, settings: Settings) -> Sea:
    return Sea(store, settings)


def test_each_turn_of_a_long_session_is_loaded_once(sea: Sea) -> None:
    session = sea.session(200)
    reports: list[ExtractReport] = []

    assert calls_of(lambda: reports.append(sea.extract(session)), stored_turns._stored_turn.__code__) == 200
    assert (reports[0].turns, reports[0].archived) == (200, 0)


def test_the_work_for_a_turn_is_the_same_in_a_long_session(sea: Sea) -> None:
    sea.extract(sea.session(20))
    sessions = [sea.session(length) for length in (80, 320)]

    calls = [calls_of(lambda session=session: sea.extract(session)) for session in sessions]

    assert calls[1] < 5 * calls[0]


def test_turns_that_withdraw_nothing_are_not_compared_with_the_memories_of_the_project(sea: Sea) -> None:
    sea.extract(sea.session(20))
    session = sea.session(10)

    assert calls_of(lambda: sea.extract(session), turn_batches.nearest.__code__) == 0


def test_the_longer_a_session_the_more_messages_pass_between_two_extractions(sea: Sea) -> None:
    sea.session(1)
    (session,) = list_sessions(sea.store)
    now_ms = session.last_at_ms

    def waits(extracted: int, new: int) -> bool:
        grown = replace(session, extractions=1, extracted_messages=extracted, message_count=extracted + new)
        return extraction_due_at_ms(grown, sea.settings, now_ms) > now_ms

    assert [waits(1_000, new) for new in (14, 15)] == [True, False]
    assert [waits(40_000, new) for new in (399, 400)] == [True, False]
