"""A memory in a private home under a clock that stands still, and memories in few words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engram.clock import FixedClock
from engram.enums import Scope
from engram.models import episode_changes, episodes
from engram.models.episodes import Episode, Evidence
from engram.models.store import Store, open_store
from engram.settings import Settings

Keep = Callable[..., Episode]


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    made.places.prepare()
    return made


@pytest.fixture
def store(settings: Settings, clock: FixedClock) -> Iterator[Store]:
    opened = open_store(settings.places.memory_db, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def keep(store: Store) -> Keep:
    """Keeps a memory; ``evidence`` names what it rests on."""

    def keep(summary: str, *, evidence: list[Evidence] | None = None, **changes: object) -> Episode:
        made = Episode(episodes.new_episode_id(), "decision", summary, f"content of {summary}", scope=Scope.GLOBAL)
        made = dataclasses.replace(made, **changes)  # type: ignore[arg-type]
        with store.transaction() as tx:
            return episode_changes.add_episode(
                tx, made, evidence or [Evidence(f"uuid of {made.episode_id}", made.session_id or "s1")]
            )

    return keep
