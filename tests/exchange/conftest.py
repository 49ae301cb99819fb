"""A memory with everything that an export must carry, and another, empty home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engram.consolidation.undo import undo_last_change
from engram.enums import Actor, Importance, Judgement, Kind, Scope
from engram.forgetting.forget import forget_memory
from engram.memories.correct import correct_memory, judge_memory
from engram.memories.save import edit_memory, pin_memory, save_memory
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import note_contradiction
from engram.models.memories.memory_changes import move_memories_of_session, pack_old_content
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.projects.project_folders import note_hints
from engram.models.projects.projects import ensure_project
from engram.models.sessions.sessions import ensure_session
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from tests.empty_memory import open_empty
from tests.exchange.exports import home_settings


@pytest.fixture
def lived_in(store: Store, settings: Settings, keep: Callable[..., Memory], clock: FixedClock) -> Store:
    """A memory with two projects, every state, judgements, a contradiction, a move, and something forgotten."""
    with store.transaction() as tx:
        harbor = ensure_project(tx, "/gone/src/harbor", "harbor", "/gone/src/harbor")
        boats = ensure_project(tx, "/gone/src/Harbor", "Harbor", "/gone/src/Harbor")
        for session_id, project in (("s-1", harbor), ("s-2", boats)):
            ensure_session(
                tx, session_id, agent="claude-code", project_id=project.id, is_global=False, cwd=project.root, at_ms=5
            )
    with store.transaction() as tx:
        note_hints(tx, harbor.id, "example.com/harbor", "c0ffee")
    kept = keep(
        "Piers are numbered from the north.",
        session_id="s-1",
        project_id=harbor.id,
        scope=Scope.PROJECT,
        facts=("a fact",),
        entities=("pier", "harbour.py"),
        questions=("Where does the counting of landing stages begin?",),
        evidence=[Evidence("11111111-0000-4000-8000-000000000001", "s-1"), Evidence("x", "s-2"), Evidence("", "s-9")],
        slot="a slot",
        access_count=3,
        accessed_at_ms=77,
        content="---\nengram: 1\n---\n# no heading\r\n\n  Ünïcode 数据 🚀 \u2028 \x85\n\n",
    )
    clock.advance(60)
    edit_memory(store, kept.episode_id, redact, actor=Actor.USER, summary="Piers are numbered from the south.")
    pin_memory(store, kept.episode_id, actor=Actor.USER)
    clock.advance(60)
    wrong = keep("Buoys are blue.", kind=Kind.FACT, session_id="s-2", project_id=boats.id, scope=Scope.PROJECT)
    judge_memory(store, wrong.episode_id, Judgement.WRONG, "they are red", redact, actor=Actor.USER)
    outdated = keep("The crane is rented.", importance=Importance.HIGH)
    correct_memory(store, outdated.episode_id, "The crane is owned.", "bought", redact, actor=Actor.USER)
    clock.advance(60)
    older, newer = keep("Ropes are hemp."), keep("Ropes are nylon.")
    packed = keep("Old logs are kept in the attic. " * 3, session_id="s-1")
    with store.transaction() as tx:
        note_contradiction(tx, older.episode_id, newer.episode_id, "they disagree")
        pack_old_content(tx, packed, "it is old", actor=Actor.TIDYING)
        session = tx.value("SELECT id FROM session WHERE session_id = 's-2'")
        move_memories_of_session(tx, session, harbor.id, "moved by hand", actor=Actor.USER)
    undone = keep("The mole is long.")
    edit_memory(store, undone.episode_id, redact, actor=Actor.USER, summary="The mole is short.")
    undo_last_change(store, settings, undone.episode_id, actor=Actor.USER)
    gone = save_memory(store, "The harbour master is called Wilhelmina.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
    forget_memory(store, settings.places, gone.episode_id, actor=Actor.USER)
    return store


@pytest.fixture
def other_settings(tmp_path: Path) -> Settings:
    """Settings of another, empty home."""
    return home_settings(tmp_path / "other")


@pytest.fixture
def other(other_settings: Settings) -> Iterator[Store]:
    """Another, empty memory, at another time."""
    with open_empty(other_settings.places.memory_db, clock=FixedClock(4_000_000_000_000)) as store:
        yield store
