"""``engram bench speed``: a memory of made-up turns and episodes, and how long it takes to use."""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from engram.cli.bench_homes import Homes, open_homes
from engram.cli.workspace import Workspace
from engram.embedding.embedder import Embedder
from engram.models.episodes import Episode, Evidence, add_episode, new_episode_id
from engram.models.sessions import SessionRow, ensure_project, ensure_session
from engram.models.store import Store
from engram.models.transcripts import ensure_transcript
from engram.models.turns import write_turn
from engram.models.vectors import missing_vectors, put_vectors
from engram.search.query import Query
from engram.search.service import Searcher
from engram.transcripts.record import EntryRef, Opening, Role, Said, Turn

#: Turns of one session, and of one transaction.
_SESSION_TURNS = 50
#: Different words in the made-up turns; how often each comes falls as in real text.
_VOCABULARY = 30_000
_WORDS = (12, 60)
_START_MS = 1_700_000_000_000


def run_speed(workspace: Workspace, turns: int, queries: int) -> dict[str, Any]:
    """Fill a memory with ``turns`` turns and as many episodes, then time it. All figures in milliseconds but memory."""
    with open_homes(workspace, no_model=False, keep=None) as homes:
        writer = _Writer(random.Random(7))
        with homes.memory("speed", lambda store, _: None) as (store, _):
            start = time.perf_counter()
            writer.fill(store, turns, homes.embedder)
            filled = time.perf_counter() - start
            click.echo(f"{turns} turns and episodes written in {filled:.0f} s", err=True)
            return {"turns": turns, "disk_mb": round(store.path.stat().st_size / 1e6)} | _time_all(
                store, homes, writer, queries
            )


def _time_all(store: Store, homes: Homes, writer: _Writer, queries: int) -> dict[str, Any]:
    start = time.perf_counter()
    searcher = Searcher(store, homes.settings, embedder=homes.embedder)
    searcher.refresh()
    cold = (time.perf_counter() - start) * 1000
    asked = [writer.text(writer.random.randint(5, 12)) for _ in range(queries)]
    found: dict[str, Any] = {"cold_start_ms": round(cold)}
    found["embed_ms"] = _timed(lambda text: homes.embedder.embed_query(text) if homes.embedder else None, asked)
    found["recall_ms"] = _timed(lambda text: searcher.recall(Query(text)), asked)
    found["search_ms"] = _timed(lambda text: searcher.search(Query(text)), asked)
    found["add_turn_ms"] = _timed(lambda text: writer.add(store, 1), asked[:50])
    writer.fill_vectors(store, homes.embedder)
    start = time.perf_counter()
    searcher.refresh()
    found["refresh_ms"] = round((time.perf_counter() - start) * 1000, 1)
    found["memory_mb"] = round(_peak_mb())
    return found


def _timed(work: Callable[[str], object], texts: list[str]) -> dict[str, float]:
    took = []
    for text in texts:
        start = time.perf_counter()
        work(text)
        took.append((time.perf_counter() - start) * 1000)
    return {f"p{share}": round(float(np.percentile(took, share)), 2) for share in (50, 95, 99)}


def _peak_mb() -> float:
    """The most memory this process has had; macOS counts bytes, others kilobytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


class _Writer:
    """Makes turns and episodes up, always the same ones."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self._words = [f"w{number}" for number in range(_VOCABULARY)]
        self._weights = np.cumsum(1.0 / np.arange(3, _VOCABULARY + 3)).tolist()
        self._written = 0

    def text(self, words: int) -> str:
        """A text of so many words."""
        return " ".join(self.random.choices(self._words, cum_weights=self._weights, k=words))

    def fill(self, store: Store, turns: int, embedder: Embedder | None) -> None:
        """Write turns, an episode each, and vectors."""
        for _ in range(0, turns, _SESSION_TURNS):
            self.add(store, min(_SESSION_TURNS, turns - self._written))
        self.fill_vectors(store, embedder)

    def add(self, store: Store, turns: int) -> None:
        """Write a few turns of one session in one transaction."""
        with store.writing():
            session = self._session(store)
            transcript = ensure_transcript(store, Path(f"/{session.session_id}.jsonl"), session.id)
            for _ in range(turns):
                turn_id = write_turn(store, self._turn(session), session, transcript)
                episode = Episode(
                    new_episode_id(), "turn", self.text(25), self.text(60), session.session_id, session.project_id,
                    created_at_ms=self._at_ms,
                )  # fmt: skip
                add_episode(store, episode, [Evidence(f"a{self._written}", session.session_id, turn_id)])
                self._written += 1

    @property
    def _at_ms(self) -> int:
        return _START_MS + self._written * 60_000

    def _session(self, store: Store) -> SessionRow:
        number = self._written // _SESSION_TURNS
        project = ensure_project(store, f"project-{number % 20}", f"project-{number % 20}")
        return ensure_session(
            store, f"session-{number}", agent="claude-code", project_id=project.id, is_global=False, cwd="",
            at_ms=self._at_ms,
        )  # fmt: skip

    def _turn(self, session: SessionRow) -> Turn:
        key, at_ms = str(self._written), self._at_ms
        said = (
            Said(f"u{key}", Role.USER, self.text(self.random.randint(*_WORDS)), line=1, at_ms=at_ms),
            Said(f"a{key}", Role.ASSISTANT, self.text(self.random.randint(*_WORDS)), line=2, at_ms=at_ms + 1),
        )
        entries = (EntryRef(f"u{key}", 0, 1, 1), EntryRef(f"a{key}", 2, 1, 2))
        return Turn(
            key, session.session_id, Opening.PROMPT, said, entries=entries, started_at_ms=at_ms, ended_at_ms=at_ms,
            is_closed=True,
        )  # fmt: skip

    def fill_vectors(self, store: Store, embedder: Embedder | None) -> None:
        """Random vectors of the right form for every row: the model itself is not what is measured."""
        if embedder is None:
            return
        numbers = np.random.default_rng(self._written)
        while waiting := missing_vectors(store, embedder.model_id, 200_000):
            for first in range(0, len(waiting), 5_000):
                some = waiting[first : first + 5_000]
                rows = numbers.standard_normal((len(some), embedder.dimension)).astype(np.float32)
                rows /= np.linalg.norm(rows, axis=1, keepdims=True)
                blobs = [row.astype(np.float16).tobytes() for row in rows]
                with store.writing():
                    put_vectors(
                        store, embedder.model_id,
                        [(one.owner, one.owner_id, 0, blob) for one, blob in zip(some, blobs, strict=True)],
                    )  # fmt: skip
