"""P1: a long transcript whose reader was killed between two transactions is read on, though it never grows again."""

from __future__ import annotations

from pathlib import Path

import pytest
from transcript_lines import say

from engram.ingest import read_portion as ingest
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.redaction import redact
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.watcher.watch import Watcher

SESSION = "11111111-2222-3333-4444-555555555555"
TURNS = 40


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.fixture
def transcript(settings: Settings) -> Path:
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    for number in range(TURNS):
        say(path, "user", f"Explain importer {number}")
    return path


def test_the_next_sweep_reads_the_rest(
    settings: Settings, store: Store, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = []
    write = ingest.write_portion

    def write_and_die(*arguments: object) -> object:
        write(*arguments)  # type: ignore[arg-type]
        commits.append(1)
        raise Killed

    monkeypatch.setattr(ingest, "write_portion", write_and_die)
    with pytest.raises(Killed):
        ingest_path(store, transcript, settings=settings, redact=redact, max_bytes=2000)
    monkeypatch.undo()
    assert 0 < int(store.value("SELECT count(*) FROM turn")) < TURNS
    huey.bind(settings.places, settings.sqlite_driver)
    watcher = Watcher(settings, store)

    hinted = watcher.sweep()
    watcher.step()
    watcher.close()

    assert (hinted, len(commits)) == (1, 1)
    assert int(store.value("SELECT count(*) FROM turn")) == TURNS
    assert watcher.sweep() == 0
