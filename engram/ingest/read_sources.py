"""Read sources to the end, storing new content as turns, together with the cursor, in one transaction per portion."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from engram.errors import Conflict, TranscriptError
from engram.ingest.project_moves import MAX_READ_AT_ONCE, settle_projects
from engram.ingest.read_portion import Step
from engram.ingest.redact_turns import Redact
from engram.ingest.session_project import why_not
from engram.ingest.write_portion import IngestResult
from engram.models.engine.transaction import Store
from engram.models.sessions.reading_progress import (
    Progress,
    is_known_file,
    load_progress,
    note_error,
    note_gone,
    note_kept_out,
    places_of_session,
    rename_transcript,
    session_of_file,
)
from engram.models.sessions.sessions import find_session
from engram.models.sessions.turn_changes import close_turns
from engram.settings import Settings
from engram.system.atomic import is_missing
from engram.system.process_limits import collector_paused
from engram.transcripts import registry
from engram.transcripts.agents import Reading, Source
from engram.transcripts.project import one_run

#: Number of bytes per transaction; this limits memory use and the time for which the write lock is held.
PORTION_BYTES = 4 * 1024 * 1024
#: Maximum number of times that a read is restarted because another reader was faster.
MAX_TRIES = 100


def ingest_source(
    store: Store,
    source: Source,
    *,
    settings: Settings,
    redact: Redact,
    close: bool = False,
    max_bytes: int = PORTION_BYTES,
    goes_on: Callable[[], bool] = lambda: True,
) -> IngestResult:
    """Read new content from a source and store it; any number of readers may do so at the same time.

    Each portion is one transaction: its turns, their entries, the cursor and the resulting work are committed together
    if no other reader has moved the cursor in the meantime; otherwise the portion is read again. If a source is gone or
    cannot be read, stored data is not changed.

    Args:
        redact: called with each text before it is stored and the hashes of known environment values; returns the
            redacted text.
        close: whether to close the session's open turn at the end (after Stop, a flush, or silence).
        max_bytes: approximately how many bytes of the source go into one transaction.
        goes_on: called between two portions; if it returns False, the rest is left to the next read.

    Raises:
        StoreError: the database cannot be written; the cursor has not moved.
    """
    _follow_move(store, source, settings)
    result = IngestResult(source.path, source.session_id, skipped=why_not(store, source.session_id, settings))
    tries = 0
    while not result.skipped:
        step = Step(store, source, settings, redact, max_bytes)
        try:
            with collector_paused():
                before, reading = step.read()
                for other in step.others:
                    # Store these first: the main session's cursor then moves past their lines.
                    _keep_other(*other, close=close)
                result, has_more = step.keep(before, reading, result)
            tries = 0
            source = replace(source, is_doubtful=False)
        except Conflict:
            tries += 1
            if tries >= MAX_TRIES:
                raise
            continue
        except TranscriptError as error:
            if is_missing(source.path):
                return _unavailable(store, source.path)
            note_error(store, source.place, str(error))
            return replace(result, skipped="unreadable")
        if not has_more:
            break
        if not goes_on():
            return result
    if result.skipped == "excluded":
        note_kept_out(store, source)
    if close and not result.skipped:
        _close(store, source.session_id)
    return result


def _keep_other(step: Step, before: Progress, reading: Reading, *, close: bool) -> None:
    """Store what was read of a session in another one's file. Raises Conflict."""
    store, source = step.store, step.source
    if why_not(store, source.session_id, step.settings):
        return
    try:
        result, is_unread = step.keep(before, reading, IngestResult(source.path, source.session_id))
    except TranscriptError as error:
        note_error(store, source.place, str(error))
        return
    if is_unread:
        raise Conflict()
    if close and not result.skipped:
        _close(store, source.session_id)


def ingest_path(
    store: Store, path: Path, *, settings: Settings, redact: Redact, close: bool = False, max_bytes: int = PORTION_BYTES
) -> list[IngestResult]:
    """Read every source in a file as ``ingest_source`` does; if there is none, return one result with the reason."""
    path = Path(os.path.abspath(path))
    sources = registry.sources_at(path, settings)
    if not sources:
        return [_unavailable(store, path)]
    return [
        ingest_source(store, source, settings=settings, redact=redact, close=close, max_bytes=max_bytes)
        for source in sources
    ]


def ingest_all(
    store: Store,
    *,
    settings: Settings,
    redact: Redact,
    progress: Callable[[int, int, IngestResult], None] = lambda done, total, result: None,
    sources: Iterable[Source | Path] | None = None,
) -> list[IngestResult]:
    """Read every source of every agent, oldest change first, or only ``sources``, in the given order.

    A path stands for all sources in it. Sessions are sorted into projects again at the end, because one session may
    reveal which project another belongs to, and projects whose folder has moved are joined.

    After each source, ``progress`` is called with the number of finished sources, the total, and the last result.
    """
    todo = list(in_order_of_change(registry.discover(settings)) if sources is None else sources)
    results = []
    with one_run():
        for done, item in enumerate(todo, 1):
            if isinstance(item, Source):
                results.append(ingest_source(store, item, settings=settings, redact=redact))
            else:
                results += ingest_path(store, item, settings=settings, redact=redact)
            progress(done, len(todo), results[-1])
        settle_projects(store, settings, MAX_READ_AT_ONCE)
    return results


def in_order_of_change(sources: Iterable[Source]) -> list[Source]:
    """Return sources by the time of their last change, oldest first."""
    return sorted(sources, key=lambda source: (source.changed_at_ns, str(source.path), source.part))


def sources_of_session(store: Store, session_id: str, settings: Settings) -> list[Source]:
    """Return a session's existing sources: those read before or, if there are none, those that can be found."""
    known = [
        source
        for path in dict.fromkeys(place.path for place in places_of_session(store, session_id))
        for source in registry.sources_at(path, settings)
        if source.session_id == session_id
    ]
    return known or [source for source in registry.discover(settings) if source.session_id == session_id]


def ingest_session(store: Store, session_id: str, *, settings: Settings, redact: Redact, close: bool = False) -> None:
    """Read all sources of a session to their ends, as ``ingest_source`` does. Raises StoreError."""
    for source in sources_of_session(store, session_id, settings):
        ingest_source(store, source, settings=settings, redact=redact, close=close)


def _follow_move(store: Store, source: Source, settings: Settings) -> None:
    """If a file was moved, compressed or decompressed, continue from the cursor of the old file."""
    if load_progress(store, source.place).transcript_id:
        return
    for old in places_of_session(store, source.session_id):
        if old.part != source.part or any(other.place == old for other in registry.sources_at(old.path, settings)):
            continue
        with contextlib.suppress(TranscriptError):
            if registry.agent_of(source).is_moved(source, load_progress(store, old).cursor):
                rename_transcript(store, old.path, source.path)
                return


def _close(store: Store, session_id: str) -> None:
    session = find_session(store, session_id)
    if session is not None:
        with store.transaction() as tx:
            close_turns(tx, session.id)


def _unavailable(store: Store, path: Path) -> IngestResult:
    """Return the result for a path that no longer contains a session; data that was read from it earlier is kept."""
    if is_known_file(store, path) and is_missing(path):
        note_gone(store, path)
        return IngestResult(path, session_of_file(store, path), skipped="gone")
    return IngestResult(path, skipped="not a transcript")
