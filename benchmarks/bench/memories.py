"""Fill a memory for a benchmark with chats and vectors, ask questions and time them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from bench.datasets import Chat, Question, Unit
from bench.measure import QuestionResult, ShownHit
from bench.storing import write_turn
from engram.embedding.embedder import Embedder
from engram.models.engine.transaction import Store
from engram.models.projects.projects import ensure_project
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session
from engram.search.hits import Hit
from engram.search.question import Query
from engram.search.vectors.loaded_vectors import embed_missing
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn

#: Number of rows embedded at a time.
_BATCH = 256
_DAY_MS = 86_400_000

Search: TypeAlias = Callable[[Query], Sequence[Hit]]


def write_chat(store: Store, chat: Chat) -> None:
    """Write a chat as turns, one per unit, each preceded by the name of its speaker."""
    for session_id, of_session in groupby(chat.units, key=lambda unit: unit.session):
        units = list(of_session)
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
    block = TextBlock(
        uuid=unit.id,
        role=Role.USER if unit.is_first else Role.ASSISTANT,
        text=f"{label}: {unit.text}" if label else unit.text,
        offset=place,
        length=1,
        line=place + 1,
        at_ms=unit.at_ms,
    )
    return Turn(
        key=unit.id,
        session_id=unit.session,
        opening=Opening.PROMPT if unit.is_first else Opening.CONTINUATION,
        said=(block,),
        entries=(EntryRef(unit.id, place, 1, place + 1),),
        started_at_ms=unit.at_ms,
        ended_at_ms=unit.at_ms,
        is_closed=True,
    )


def embed_all(store: Store, embedder: Embedder | None, progress: Callable[[int], None] = lambda done: None) -> None:
    """Embed every row without a vector; ``progress`` gets the number of rows embedded so far."""
    done = 0
    while embedder is not None and (count := embed_missing(store, embedder, _BATCH)):
        done += count
        progress(done)


def question_time_ms(store: Store) -> int:
    """Return when the questions are asked: a day after the last turn."""
    return last_turn_ms(store) + _DAY_MS


def last_turn_ms(store: Store) -> int:
    """Return when the last turn ended, in milliseconds since 1970; 0 if there is none."""
    return int(store.value("SELECT max(coalesce(ended_at_ms, started_at_ms)) FROM turn") or 0)


def ask_questions(
    search: Search, questions: Iterable[Question], *, now_ms: int, limit: int, group: str
) -> list[QuestionResult]:
    """Ask every question and time it."""
    results = []
    for question in questions:
        query = Query(question.text, limit=limit, now_ms=question.now_ms or now_ms)
        start = time.perf_counter()
        hits = search(query)
        took_ms = (time.perf_counter() - start) * 1000
        shown = tuple(ShownHit(tuple(place.uuid for place in hit.evidence if place.uuid), hit.text) for hit in hits)
        results.append(
            QuestionResult(
                id=question.id,
                category=question.category,
                wanted=question.wanted,
                hits=shown,
                group=group,
                took_ms=took_ms,
            )
        )
    return results
