"""A task walks down: no room that it called calls back into a room that is still at work.

A callback does that without any import, so ``test_layers.py`` can't see it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import pytest

from engram.embedding.hashed import HashedEmbedder
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import in_order_of_change
from engram.models.engine.transaction import Store
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.tasks.runtime import Runtime
from engram.tasks.session_tasks import embed_slice, extract_now, read_session, recollect_now, write_log
from engram.transcripts import registry
from tests.test_layers import FLOORS, REPO, part_of

SAMPLES = REPO / "engram/samples"


@cache
def room_of(code: CodeType) -> str | None:
    """The room of a function, by the floors; None for a library and for what everything may use."""
    path = Path(code.co_filename)
    if not path.is_relative_to(REPO / "engram"):
        return None
    part = part_of(".".join(path.relative_to(REPO).with_suffix("").parts))
    return part if part is not None and FLOORS[part] > 1 else None


def ways_back(run: Callable[[], object]) -> set[str]:
    """Run something; return each call that entered a room in which an outer call was still at work."""
    rooms: list[str | None] = []
    found = set()

    def trace(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and rooms:
            rooms.pop()
        elif event == "call":
            room, before = room_of(frame.f_code), next((room for room in reversed(rooms) if room), None)
            if room is not None and room != before and room in rooms:
                found.add(f"{before} calls {frame.f_code.co_qualname} of {room}")
            rooms.append(room)

    sys.setprofile(trace)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


@pytest.fixture
def runtime(tmp_path: Path, settings: Settings, store: Store) -> Runtime:
    """The services of a worker, for sessions of which only the first half is there."""
    shutil.copytree(SAMPLES, settings.claude_folder, dirs_exist_ok=True)
    searcher, embedder = Searcher(store, settings, embedder=HashedEmbedder()), HashedEmbedder()
    recollection = RecollectionService(store, searcher, settings, embedder=embedder)
    return Runtime(settings, store, searcher, recollection, embedder, LocalExtractor())


def test_no_task_climbs_back_into_a_room_that_called_it(runtime: Runtime) -> None:
    settings, found = runtime.settings, set()
    settings.places.daily_notes.mkdir(parents=True, exist_ok=True)
    for source in in_order_of_change(registry.discover(settings)):
        lines = source.path.read_bytes().splitlines(keepends=True)
        for share in (lines[: len(lines) // 2], lines):
            source.path.write_bytes(b"".join(share))
            session = source.session_id
            for task in (read_session, extract_now, recollect_now, write_log):
                found |= ways_back(lambda task=task, session=session: task(runtime, session))
            found |= ways_back(lambda: embed_slice(runtime))

    assert runtime.store.value("SELECT count(*) FROM episode") > 0
    assert found == set()
