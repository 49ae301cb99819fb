"""The watcher follows rollouts as they grow, alongside Claude Code's transcripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from processes import read_until

from engram.ingest.read_sources import ingest_source
from engram.models.engine.transaction import Store
from engram.redaction import redact
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.transcripts import registry
from engram.transcripts.agents import Source
from engram.watcher.watch import Watcher
from tests.rollouts import SESSION, Rollout


@pytest.fixture
def watcher(store: Store, settings: Settings) -> Iterator[Watcher]:
    """A watcher that is stepped by hand."""
    huey.bind(settings.places)
    made = Watcher(settings, store)
    yield made
    made.close()
    huey.storage.close()


def test_a_rollout_is_tailed_line_by_line(watcher: Watcher, store: Store, rollout: Rollout) -> None:
    rollout.head().user("Weigh the seal.")
    swept = watcher.sweep()
    watcher.step()
    rollout.says("90 kilograms.")
    watcher.hint(rollout.path)
    (result,) = watcher.step()

    assert swept == 1
    assert (result.session_id, result.grown_turns, result.new_turns) == (SESSION, 1, 0)
    assert store.value("SELECT count(*) FROM said") == 2
    assert watcher.sweep() == 0


def test_a_day_folder_that_appears_is_watched(watcher: Watcher, store: Store, rollout: Rollout) -> None:
    rollout.folder.joinpath("sessions").mkdir(parents=True)
    watcher.events.keep_up()
    rollout.head().user("Weigh the seal.")

    read_until(watcher, lambda: store.value("SELECT count(*) FROM turn") >= 1)

    assert store.value("SELECT count(*) FROM turn") == 1


@pytest.mark.parametrize("was_misread", [False, True])
def test_a_subagents_rollout_is_not_read_by_another_agent_and_is_whole_once_asked_for(
    watcher: Watcher, store: Store, settings: Settings, rollout: Rollout, was_misread: bool
) -> None:
    rollout.head(source={"subagent": "review"}, thread_source="subagent")
    rollout.message("assistant", "The seal weighs 200 kg.")
    watcher.hint(rollout.path)
    watcher.step()
    kept = store.value("SELECT count(*) FROM transcript")
    if was_misread:  # as by earlier versions
        misread = Source.of_file("claude-code", rollout.path, rollout.path.stat(), rollout.path.stem)
        ingest_source(store, misread, settings=settings, redact=redact)

    (source,) = registry.sources_at(rollout.path, replace(settings, subagents=True))
    ingest_source(store, source, settings=settings, redact=redact)

    assert kept == 0
    assert store.rows("SELECT text FROM said") == [("The seal weighs 200 kg.",)]
