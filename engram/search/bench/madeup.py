"""Made-up turns, episodes and vectors: as many as wanted, always the same, to time a large memory."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from engram.embedding.embedder import Embedder
from engram.models.episodes import Episode, Evidence, add_episode, new_episode_id
from engram.models.sessions import SessionRow, ensure_project, ensure_session
from engram.models.store import Store
from engram.models.transcripts import ensure_transcript
from engram.models.turns import write_turn
from engram.models.vectors import missing_vectors, put_vectors
from engram.transcripts.record import EntryRef, Opening, Role, Said, Turn

#: Turns of one session, and of one transaction.
_SESSION_TURNS = 50
#: Different words in the made-up turns; how often each comes falls as in real text.
_VOCABULARY = 30_000
_WORDS = (12, 60)
_START_MS = 1_700_000_000_000


class MadeUp:
    """Makes turns and episodes up, always the same ones."""

    def __init__(self, seed: int = 7) -> None:
        """The same seed makes the same texts."""
        self.random = random.Random(seed)
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
