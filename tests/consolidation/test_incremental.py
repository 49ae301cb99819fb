"""A periodic consolidation compares what came or changed; one that somebody asks for looks at everything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import pytest

from engram.consolidation.consolidation_run import consolidate
from engram.enums import Actor, Importance
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes
from engram.models.memories.memory_records import Memory
from engram.settings import Settings
from engram.system.clock import FixedClock

Keep = Callable[..., Memory]
Asked = list[Collection[int] | None]


@pytest.fixture
def asked() -> Asked:
    """What each look for pairs was about: row ids, or None for all."""
    return []


@pytest.fixture
def tidy(store: Store, settings: Settings, clock: FixedClock, asked: Asked) -> Callable[..., Collection[int] | None]:
    """Consolidates when the time has come; returns what was compared."""

    def similar(_: float, among: Collection[int] | None) -> Iterator[tuple[int, int, float]]:
        asked.append(among)
        return iter(())

    def tidy(**how: bool) -> Collection[int] | None:
        clock.advance(settings.consolidate_seconds + 1)
        assert consolidate(store, settings, similar=similar, **how).has_run
        return asked[-1]

    return tidy


def test_the_first_run_compares_everything_and_the_next_only_what_came_or_changed(
    store: Store, keep: Keep, tidy: Callable[..., Collection[int] | None]
) -> None:
    old, edited = keep("an old memory"), keep("one that is edited")
    assert tidy() is None
    assert tidy() == frozenset()

    with store.transaction() as tx:
        memory_changes.change_memory(tx, edited, "edit", "by hand", importance=Importance.HIGH, actor=Actor.USER)
    new = keep("a new memory")

    assert tidy() == {edited.id, new.id}
    assert tidy() == frozenset()
    assert tidy(is_forced=True) is None
    assert old.id


def test_a_memory_is_compared_once_it_has_a_vector(
    store: Store, keep: Keep, tidy: Callable[..., Collection[int] | None]
) -> None:
    from engram.models.search.vector_rows import put_vectors

    keep("embedded late")
    late = keep("and this one too")
    tidy()
    with store.transaction() as tx:
        put_vectors(tx, "test", [("e", late.id, 0, b"\0\0" * 8)])

    assert tidy() == {late.id}


def test_without_vectors_nothing_counts_as_compared(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep, tidy: Callable[..., Collection[int] | None]
) -> None:
    keep("a memory")
    assert consolidate(store, settings, similar=None).has_run

    assert tidy() is None


def test_what_came_while_a_run_was_interrupted_is_compared_by_the_next(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep, asked: Asked
) -> None:
    first = keep("there from the start")
    broken = RuntimeError("killed")

    def killed(least: float, among: Collection[int] | None) -> Iterator[tuple[int, int, float]]:
        raise broken

    with pytest.raises(RuntimeError):
        consolidate(store, settings, similar=killed, is_forced=True)
    late = keep("came after the interruption")

    def similar(least: float, among: Collection[int] | None) -> Iterator[tuple[int, int, float]]:
        asked.append(among)
        return iter(())

    clock.advance(settings.consolidate_seconds + 1)
    consolidate(store, settings, similar=similar)
    clock.advance(settings.consolidate_seconds + 1)
    consolidate(store, settings, similar=similar)

    assert asked[0] is None
    assert asked[-1] == {late.id}
    assert first.id not in asked[-1]
