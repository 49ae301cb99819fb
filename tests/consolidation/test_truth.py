"""A newer decision comes before the one it replaces; where both hold, both stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from changed_minds import BOTH_STAY, CHANGED

from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import supersede_pairs, why_outdated
from engram.embedding.embedder import Embedder
from engram.enums import Actor, Scope, Source
from engram.forgetting.forget import forget_memory
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.open_memory import open_store
from engram.search.searcher import Query, Searcher
from engram.search.vectors.loaded_vectors import embed_missing, similar_pairs
from engram.settings import Settings
from engram.system.clock import FixedClock
from tests.meanwhile import change_before_next_transaction

DAY_MS = 86_400_000


def decision(summary: str, at_ms: int = 0, **changes: object) -> Memory:
    made = Memory(memory_records.new_memory_id(), "decision", summary, summary, scope=Scope.GLOBAL, created_at_ms=at_ms)
    return Memory(**{**{f: getattr(made, f) for f in made.__slots__}, **changes})  # type: ignore[arg-type]


def cosine(embedder: Embedder, one: str, other: str) -> float:
    rows = embedder.embed([one, other])
    return float(np.dot(rows[0], rows[1]))


@pytest.mark.model
def test_the_newer_of_written_pairs_comes_first_and_the_older_is_marked(bundled: Embedder, tmp_path: Path) -> None:
    assert len(CHANGED) >= 40
    clock = FixedClock()
    with open_store(tmp_path / "memory.db", clock=clock) as store:
        new_ids = []
        for number, (old, new, _) in enumerate(CHANGED):
            with store.transaction() as tx:
                memory_changes.add_memory(tx, decision(old, clock.at_ms + number), [], actor=Actor.MODEL)
                new_ids.append(
                    memory_changes.add_memory(
                        tx, decision(new, clock.at_ms + 30 * DAY_MS + number), [], actor=Actor.MODEL
                    ).episode_id
                )
        while embed_missing(store, bundled):
            pass

        context = Context(store, Settings(home=tmp_path))
        supersede_pairs(context, similar_pairs(store, bundled.model_id, 0.4))

        searcher = Searcher(store, Settings(home=tmp_path), embedder=bundled)
        searcher.refresh()
        first = [searcher.recall(Query(text=question, limit=1))[0].id for _, _, question in CHANGED]
        right = sum(one == other for one, other in zip(first, new_ids, strict=True))
        assert right / len(CHANGED) >= 0.9, (
            right,
            [c for c, f, n in zip(CHANGED, first, new_ids, strict=True) if f != n],
        )
        assert len(context.lines) / len(CHANGED) >= 0.8


@pytest.mark.model
def test_what_is_about_something_else_replaces_nothing(bundled: Embedder) -> None:
    wrong = [
        (old, new, why)
        for old, new in BOTH_STAY
        if (why := why_outdated(decision(new), decision(old), cosine(bundled, old, new)))
    ]

    assert len(wrong) / len(BOTH_STAY) <= 0.05, wrong


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("We use npm as the package manager.", "We use pnpm as the package manager."),
        ("Use Redis as the broker.", "Use RabbitMQ as the broker."),
        ("We use unittest as our test runner.", "We use pytest as our test runner, since it is shorter."),
        ("I prefer black as the formatter here.", "I prefer ruff as the formatter here."),
    ],
)
def test_what_takes_the_place_of_the_only_one_of_its_kind_replaces_it(old: str, new: str) -> None:
    assert why_outdated(decision(new), decision(old), 0.8) == "gives another value"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("We use Redis as a cache.", "We use SQLite as a cache."),
        ("Use Redis as the cache of the frontend.", "Use Redis as the cache of the backend."),
        ("We use nginx as the proxy in staging.", "We use nginx as the proxy in production."),
        ("In the shop we use nginx as the proxy.", "In the blog we use caddy as the proxy."),
        ("We use npm as the package manager.", "We use npm as the task runner."),
    ],
)
def test_what_may_be_one_of_several_replaces_nothing(old: str, new: str) -> None:
    assert why_outdated(decision(new), decision(old), 0.8) == ""


@pytest.mark.parametrize("source", [Source.AUTO, Source.MANUAL])
def test_a_memory_that_is_forgotten_meanwhile_ends_and_contradicts_nothing(
    store: Store,
    settings: Settings,
    keep: Callable[..., Memory],
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
    source: Source,
) -> None:
    older = keep("We use Postgres for the queue.", source=source)
    clock.advance(50)
    newer = keep("We no longer use Postgres for the queue.")

    change_before_next_transaction(
        monkeypatch, lambda: forget_memory(store, settings.places, newer.episode_id, actor=Actor.USER)
    )
    supersede_pairs(Context(store, settings), [(older.id, newer.id, 0.9)])

    found = find_memory(store, older.episode_id)
    assert found is not None
    assert found.is_current
    assert store.rows("SELECT * FROM contradiction") == []
