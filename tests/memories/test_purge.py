"""Purging deletes archived memories for good and nothing else; the turns stay, and no second reading brings them
back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from planting import plant

from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.undo import undo_run
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Importance, Kind, Status
from engram.errors import BadRequest, NotFound
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.forgetting.purge import PurgePlan, plan_named, plan_purge, purge
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.forgetting import forget_memories
from engram.models.memories import memory_changes, memory_history, memory_records
from engram.models.memories.memory_records import Memory
from engram.models.search.vector_rows import count_vectors
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock

DAY = 86_400
Keep = Callable[..., Memory]
SESSION = "5f0e4e0e-5d62-4ae0-9e42-000000000002"


def ids(plan: PurgePlan) -> set[str]:
    return {one.episode_id for one in plan.memories}


def is_there(store: Store, memory: Memory) -> bool:
    return memory_records.find_memory(store, memory.episode_id) is not None


def test_only_archived_memories_that_nobody_touched_for_long_are_planned(
    store: Store, clock: FixedClock, keep: Keep
) -> None:
    old = keep("archived long ago", status=Status.ARCHIVED)
    used = keep("archived long ago, but used", status=Status.ARCHIVED)
    high = keep("archived, but high", status=Status.ARCHIVED, importance=Importance.HIGH)
    pinned = keep("archived, but pinned", status=Status.ARCHIVED, is_pinned=True)
    replaced = keep("replaced long ago", status=Status.SUPERSEDED)
    keep("active")
    keep("provisional", status=Status.PROVISIONAL)
    clock.advance(190 * DAY)
    memory_changes.note_access(store, used.episode_id)
    keep("archived just now", status=Status.ARCHIVED)

    plan = plan_purge(store, archived_days=180)
    both = plan_purge(store, archived_days=180, superseded_days=180)

    assert (ids(plan), plan.spared) == ({old.episode_id}, 2)
    assert plan.size_bytes > len("archived long ago")
    assert ids(both) == {old.episode_id, replaced.episode_id}
    assert ids(plan_named(store, [high.episode_id])) == {high.episode_id}
    with pytest.raises(BadRequest, match="pinned"):
        plan_named(store, [pinned.episode_id])


def test_what_is_in_use_or_unknown_cannot_be_purged_by_name(store: Store, keep: Keep) -> None:
    active = keep("in use")

    with pytest.raises(BadRequest, match="is active"):
        plan_named(store, [active.episode_id])
    with pytest.raises(NotFound):
        plan_named(store, ["ep_000000000000"])


def test_a_purge_takes_rows_index_vectors_and_history_and_is_logged(store: Store, keep: Keep) -> None:
    from engram.models.search.vector_rows import put_vectors

    gone = keep("the zanzibarian hull", status=Status.ARCHIVED, entities=("hull.py",))
    stays = keep("the mast is brown")
    with store.transaction() as tx:
        put_vectors(tx, "test", [("e", one.id, 0, b"\0\0" * 8) for one in (gone, stays)])

    report = purge(store, plan_purge(store, archived_days=-1), actor=Actor.USER)

    assert report.episode_ids == (gone.episode_id,)
    assert not is_there(store, gone)
    assert is_there(store, stays)
    assert memory_history.history_of(store, gone.episode_id) == []
    assert count_vectors(store, "e") == 1
    assert store.rows("SELECT rowid FROM episode_fts WHERE episode_fts MATCH 'zanzibarian'") == []
    assert store.find_damage() == ""
    (logged,) = forget_memories.list_purges(store)
    assert (logged.id, logged.episode_ids) == (report.run_id, (gone.episode_id,))
    assert memory_history.list_runs(store) == []


def test_what_changed_or_was_used_since_the_plan_stays(store: Store, keep: Keep) -> None:
    changed, used, gone = (keep(f"archived {n}", status=Status.ARCHIVED) for n in range(3))
    plan = plan_purge(store, archived_days=-1)
    with store.transaction() as tx:
        memory_changes.change_memory(tx, changed, "edit", "by hand", status=Status.ACTIVE, actor=Actor.USER)
    memory_changes.note_access(store, used.episode_id)

    report = purge(store, plan, actor=Actor.USER)

    assert (report.episode_ids, report.kept) == ((gone.episode_id,), 2)
    assert is_there(store, changed)
    assert is_there(store, used)


def test_nothing_planned_leaves_no_run(store: Store) -> None:
    assert purge(store, PurgePlan((), 0), actor=Actor.USER).run_id == 0
    assert forget_memories.list_purges(store) == []


def test_a_consolidation_whose_memories_were_purged_says_that_it_cannot_be_undone(
    store: Store, settings: Settings, keep: Keep
) -> None:
    first, second = keep("the port is open", kind=Kind.FACT), keep("open is the port", kind=Kind.FACT)
    report = consolidate(store, settings, similar=lambda *_: iter([(first.id, second.id, 0.95)]), is_forced=True)
    other = keep("the same words"), keep("the same words", evidence=None)
    later = consolidate(store, settings, is_forced=True)
    merged = memory_records.find_memory(store, first.episode_id)

    purge(store, plan_named(store, [second.episode_id]), actor=Actor.USER)

    with pytest.raises(BadRequest, match=r"were purged on .* a purge is final"):
        undo_run(store, settings, report.run_id, actor=Actor.USER)
    assert memory_records.find_memory(store, first.episode_id) == merged
    assert undo_run(store, settings, later.run_id, actor=Actor.USER)
    assert all(is_there(store, one) for one in other)


@pytest.fixture
def session(store: Store, settings: Settings, tmp_path: Path) -> int:
    """Row id of a session with one turn that makes memories."""
    common = {"sessionId": SESSION, "cwd": "/home/dev/boat", "timestamp": "2026-01-01T09:00:00.000Z"}
    entries = [
        {
            "type": "user",
            "uuid": "00000000-0000-4000-8000-000000000001",
            "message": {"role": "user", "content": "Why does the build fail? Always use cedar for the mast."},
        },
        {
            "type": "assistant",
            "uuid": "00000000-0000-4000-8000-000000000002",
            "message": {
                "role": "assistant",
                "id": "m",
                "content": [
                    {
                        "type": "text",
                        "text": "The root cause was a missing lock in `hull.py`; I fixed it by taking the lock.",
                    }
                ],
            },
        },
    ]
    path = settings.projects_folder / "-home-dev-boat" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(common | one) + "\n" for one in entries))
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    return int(store.value("SELECT id FROM session"))


def test_turns_stay_and_another_extraction_of_them_makes_no_purged_memory_again(
    store: Store, settings: Settings, session: int
) -> None:
    def extract() -> int:
        return extract_session(
            store, SESSION, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings
        ).new

    assert extract() > 0
    made = memory_records.all_memories(store)
    with store.transaction() as tx:
        for one in made:
            memory_changes.change_memory(
                tx, one, "age", "test", status=Status.ARCHIVED, importance=Importance.NORMAL, actor=Actor.TIDYING
            )
    turns = turns_of_session(store, session)

    report = purge(store, plan_purge(store, archived_days=-1), actor=Actor.USER)
    plant(store, "UPDATE turn SET extracted_revision = 0")

    assert len(report.episode_ids) == len(made)
    assert extract() == 0
    assert memory_records.all_memories(store) == []
    assert [one.turn.said for one in turns_of_session(store, session)] == [one.turn.said for one in turns]
