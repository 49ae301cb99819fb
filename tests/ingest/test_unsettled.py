"""A prompt that was queued before any line told the folder goes again where that folder may not be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from growing_transcript import Ingest, Transcript

from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_project import note_forgotten_project
from engram.models.memories.memory_records import all_memories
from engram.models.projects.projects import ensure_project
from engram.models.sessions.sessions import find_session
from engram.models.work.work import pause, resume
from engram.settings import Settings

RULE = "From now on always write files with a final newline in {}."


def texts(store: Store) -> list[str]:
    said = [str(value) for (value,) in store.rows("SELECT text FROM said ORDER BY id")]
    return [*said, *(f"{one.summary} {one.content}" for one in all_memories(store))]


@pytest.mark.parametrize("bar", ["excluded", "paused", "paused before", "forgotten"])
@pytest.mark.parametrize("is_extracted", [True, False])
def test_it_goes_with_its_memories_as_soon_as_the_folder_is_known(
    transcript: Transcript, ingest: Ingest, store: Store, settings: Settings, clock: Any, bar: str, is_extracted: bool
) -> None:
    other = replace(transcript, path=transcript.path.with_name("s2.jsonl"), cwd="/open/wharf")
    sessions = ((transcript, "engine"), (other, "wharf"))
    if bar.startswith("paused"):
        pause(store, "/gone/engine", clock.at_ms + 60_000)
    clock.at_ms += 1000
    for one, name in sessions:
        one.at_ms = clock.at_ms
        # It tells that a person may type here, and not where.
        one.add({"type": "system", "entrypoint": "cli", "cwd": None})
        one.add({"type": "queue-operation", "operation": "enqueue", "content": RULE.format(name), "cwd": None})
        ingest(one)
        if is_extracted:
            extract_session(store, one.path.stem, extractor=LocalExtractor(), embedder=None, settings=settings)
    before = texts(store)
    clock.at_ms += 10_000
    if bar == "forgotten":
        with store.transaction() as tx:
            note_forgotten_project(tx, ensure_project(tx, "/gone/engine", "engine", "/gone/engine"))
    if bar == "paused before":
        resume(store, "/gone/engine")
    if bar == "excluded":
        settings = replace(settings, exclude=("/gone/*",))
    for one, name in sessions:
        one.at_ms = clock.at_ms + 1000
        one.user(f"line of {name}")
        for _ in range(2):
            ingest(one, settings=settings)

    assert len([text for text in before if "in engine" in text]) == 1 + is_extracted
    assert [text for text in texts(store) if "in engine" in text] == []
    assert len([text for text in texts(store) if "in wharf" in text]) == 1 + is_extracted
    assert ("line of engine" in texts(store)) == (bar in ("paused before", "forgotten"))
    session = find_session(store, "s1")
    assert session is not None
    assert session.message_count == (1 if bar in ("paused before", "forgotten") else 0)
    assert store.find_damage() == ""
