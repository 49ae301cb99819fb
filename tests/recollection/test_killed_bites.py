"""A worker that is killed as soon as it has left a bite for a hook: the bite is whole, and nothing else changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from recollecting import Scene

from engram.models.shown import injections

CHILD = """
import sys
from pathlib import Path
from engram.models.open_memory import open_store
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system.clock import FixedClock
settings = Settings(home=Path(sys.argv[1]), sqlite_driver=sys.argv[2])
with open_store(Path(sys.argv[3]), driver=settings.sqlite_driver, clock=FixedClock(int(sys.argv[4]))) as store:
    RecollectionService(store, Searcher(store, settings), settings).recollect("s1")
"""


def test_a_bite_that_was_left_before_a_kill_is_whole_and_is_told_once(memory: Scene) -> None:
    kept = memory.keep()
    memory.type_prompt()
    before = memory.store.rows("SELECT * FROM episode")
    memory.store.checkpoint()
    settings = memory.settings
    given = (str(settings.home), settings.sqlite_driver, str(memory.store.path), str(memory.store.now_ms()))
    command = [sys.executable, "-c", CHILD, *given]

    killed = subprocess.run(command, timeout=120, env=os.environ | {"ENGRAM_CRASH": "recollect.written"})

    assert killed.returncode == -signal.SIGKILL
    assert memory.store.rows("SELECT * FROM episode") == before
    (waiting,) = Path(settings.places.recollections).glob("s1.*")
    assert kept.episode_id.encode() in waiting.read_bytes()
    memory.service.recollect("s1")
    assert len(injections.injections_of_session(memory.store, "s1")) <= 1
    assert memory.store.rows("SELECT * FROM episode") == before
