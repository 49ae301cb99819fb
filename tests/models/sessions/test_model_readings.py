"""A turn waits for a language model until one has read its latest revision; forgetting the turn forgets that."""

from __future__ import annotations

from pathlib import Path

import pytest
from transcript_lines import say

from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.sessions.sessions import SessionRow, find_session
from engram.models.sessions.stored_turns import (
    note_model_reading,
    second_chances,
    turns_of_session,
    unread_turns,
    waiting_sessions,
)
from engram.models.sessions.turn_changes import delete_turn
from engram.redaction import redact
from engram.settings import Settings

SESSION = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "claude" / "projects" / "-work-demo" / f"{SESSION}.jsonl"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")


@pytest.fixture
def session(store: Store, settings: Settings, path: Path) -> SessionRow:
    say(path, "user", "Always write the failing test before the fix.")
    return read(store, settings, path)


def read(store: Store, settings: Settings, path: Path) -> SessionRow:
    ingest_path(store, path, settings=settings, redact=redact)
    extract_session(store, SESSION, extractor=LocalExtractor(), embedder=None, settings=settings)
    session = find_session(store, SESSION)
    assert session is not None
    return session


def test_a_turn_waits_until_a_model_has_read_it_and_again_when_it_grows(
    store: Store, settings: Settings, path: Path, session: SessionRow
) -> None:
    assert waiting_sessions(store) == [SESSION]
    with store.transaction() as tx:
        note_model_reading(tx, turns_of_session(store, session.id), is_second=True)
    assert unread_turns(store, session.id) == []
    assert (second_chances(store).done, second_chances(store).waiting) == (1, 0)

    say(path, "assistant", "Understood.")
    read(store, settings, path)

    assert len(unread_turns(store, session.id)) == 1


def test_the_reading_of_a_turn_goes_with_the_turn(store: Store, session: SessionRow) -> None:
    turns = turns_of_session(store, session.id)
    with store.transaction() as tx:
        note_model_reading(tx, turns)
    assert store.value("SELECT count(*) FROM model_reading") == 1

    with store.transaction() as tx:
        delete_turn(tx, turns[0].id)

    assert store.value("SELECT count(*) FROM model_reading") == 0
