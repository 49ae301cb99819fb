"""Memories made for a benchmark: chats written as turns, vectors filled, questions asked and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path

from engram.bench.datasets import Chat, Question, Unit
from engram.bench.measure import Asked, Shown
from engram.embedding.embedder import Embedder
from engram.models.search_rows import last_turn_ms
from engram.models.sessions import ensure_project, ensure_session
from engram.models.store import Store
from engram.models.transcripts import ensure_transcript
from engram.models.turns import write_turn
from engram.search.hits import Hit
from engram.search.question.query import Query
from engram.search.vectors.backfill import embed_missing
from engram.transcripts.record import EntryRef, Opening, Role, TextBlock, Turn

#: Rows embedded at a time.
_BATCH = 256
_DAY_MS = 86_400_000


def write_chat(store: Store, chat: Chat) -> None:
    """Write a chat as turns, one for each thing said, under the name of its speaker."""
    for session_id, some in groupby(chat.units, key=lambda unit: unit.session):
        units = list(some)
        with store.transaction() as tx:
            project = ensure_project(tx, chat.name, chat.name)
            session = ensure_session(
                tx, session_id, agent="chat", project_id=project.id, is_global=False, cwd="", at_ms=units[0].at_ms
            )
            transcript = ensure_transcript(tx, Path("/") / f"{session_id}.jsonl", session.id)
            for place, unit in enumerate(units):
                write_turn(tx, _turn(unit, place), session, transcript)


def _turn(unit: Unit, place: int) -> Turn:
    label = unit.speaker if unit.speaker[:1].isupper() else ""
    said = TextBlock(
        unit.id, Role.USER if unit.is_first else Role.ASSISTANT, f"{label}: {unit.text}" if label else unit.text,
        offset=place, length=1, line=place + 1, at_ms=unit.at_ms,
    )  # fmt: skip
    return Turn(
        unit.id, unit.session, Opening.PROMPT if unit.is_first else Opening.CONTINUATION, (said,),
        entries=(EntryRef(unit.id, place, 1, place + 1),), started_at_ms=unit.at_ms, ended_at_ms=unit.at_ms,
        is_closed=True,
    )  # fmt: skip


def embed_all(store: Store, embedder: Embedder | None, step: Callable[[int], None] = lambda done: None) -> None:
    """Give every row its vector; ``step`` gets the number of rows done so far."""
    done = 0
    while embedder is not None and (count := embed_missing(store, embedder, _BATCH)):
        done += count
        step(done)


def last_said_ms(store: Store) -> int:
    """A day after the last turn: when the questions are asked."""
    return last_turn_ms(store) + _DAY_MS


def ask_all(
    search: Callable[[Query], Sequence[Hit]], questions: Iterable[Question], *, now_ms: int, limit: int, group: str
) -> list[Asked]:
    """Ask every question and time it."""
    run = []
    for question in questions:
        query = Query(question.text, limit=limit, now_ms=question.now_ms or now_ms)
        start = time.perf_counter()
        hits = search(query)
        took_ms = (time.perf_counter() - start) * 1000
        shown = tuple(Shown(tuple(place.uuid for place in hit.evidence if place.uuid), hit.text) for hit in hits)
        run.append(Asked(question.id, question.category, question.wanted, shown, group, took_ms))
    return run
