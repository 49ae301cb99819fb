"""Made-up turns, episodes and vectors: as many as wanted, always the same, to time a large memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engram.bench.wording import Wording
from engram.embedding.embedder import Embedder
from engram.enums import Kind
from engram.models.counts import count_totals
from engram.models.episode_changes import add_episode
from engram.models.episodes import Episode, Evidence, new_episode_id
from engram.models.search_rows import count_documents
from engram.models.sessions import SessionRow, ensure_project, ensure_session
from engram.models.store import Store
from engram.models.transaction import Tx
from engram.models.transcripts import ensure_transcript
from engram.models.turns import write_turns
from engram.models.vectors import put_vectors
from engram.transcripts.record import EntryRef, Opening, Role, TextBlock, Turn

#: Turns of one session, and of one transaction.
SESSION_TURNS = 50
#: Projects that the sessions belong to in turn.
PROJECTS = 20
#: Fewest and most words of a prompt and of a reply: one passage each.
_WORDS = (12, 60)
_SUMMARY_WORDS, _CONTENT_WORDS = 25, 60
_START_MS = 1_700_000_000_000
#: Vectors written in one transaction.
_SLICE = 5_000
#: Length of the noise that is added to a topic's vector: rows of a topic are then about as alike as texts of one.
_NOISE = 1.1


class MadeUp:
    """Makes turns and episodes up, always the same ones.

    Every session has a topic. A row's vector is that of a text of its topic, embedded by the real model, with noise: a
    million texts cannot be embedded for a benchmark, and a question must lie near some rows and far from others.
    """

    def __init__(self, seed: int = 7, *, wording: Wording | None = None, memories: int | None = None) -> None:
        """The same seed makes the same texts; ``memories`` bounds the episodes, one a turn where it is None."""
        self.wording = wording or Wording(seed)
        self._memories = memories
        self._written = 0
        self._kept = 0
        #: The last passage and the last episode that has its vector.
        self._embedded = {"p": 0, "e": 0}
        self._numbers = np.random.default_rng(seed)
        self._centres: NDArray[np.float32] | None = None

    @property
    def written(self) -> int:
        """How many turns were written."""
        return self._written

    @property
    def kept(self) -> int:
        """How many episodes were written."""
        return self._kept

    @property
    def embedded(self) -> int:
        """How many rows have their vector."""
        return sum(self._embedded.values())

    def question(self, project: int | None = None) -> str:
        """A question of 5 to 12 words about the topic of some session, of a project where its number is named."""
        topic = int(self._numbers.integers(self.wording.topics))
        if project is not None:
            # A session's topic and its project both follow from its number.
            topic = (topic // PROJECTS * PROJECTS + project) % self.wording.topics
        return self.wording.text(int(self._numbers.integers(5, 13)), topic)

    def go_on(self, store: Store) -> None:
        """Take up a memory that was filled before: what is written from now on comes behind it."""
        self._written, self._kept = count_totals(store).turns, _last(store, "e")
        self._embedded = {owner: _last(store, owner) for owner in "pe"}

    def fill(self, store: Store, turns: int, embedder: Embedder | None) -> None:
        """Write turns up to a number in all, their episodes, and vectors."""
        while self._written < turns:
            self.add(store, min(SESSION_TURNS - self._written % SESSION_TURNS, turns - self._written))
        self.fill_vectors(store, embedder)

    def add(self, store: Store, turns: int) -> None:
        """Write a few turns of one session in one transaction."""
        topic = self._topic(self._written)
        with store.transaction() as tx:
            session = self._session(tx)
            transcript = ensure_transcript(tx, Path(f"/{session.session_id}.jsonl"), session.id)
            made = [self._turn(session, topic, number) for number in range(self._written, self._written + turns)]
            ids = write_turns(tx, made, session, transcript)
            for turn, turn_id in zip(made, ids, strict=True):
                if self._memories is None or self._kept < self._memories:
                    add_episode(tx, self._episode(turn, topic, session), [
                        Evidence(turn.said[-1].uuid, session.session_id, turn_id)])  # fmt: skip
                    self._kept += 1
        self._written += turns

    def _session(self, tx: Tx) -> SessionRow:
        number = self._written // SESSION_TURNS
        project = ensure_project(tx, f"project-{number % PROJECTS}", f"project-{number % PROJECTS}")
        return ensure_session(
            tx, f"session-{number}", agent="claude-code", project_id=project.id, is_global=False, cwd="",
            at_ms=_at_ms(self._written),
        )  # fmt: skip

    def _turn(self, session: SessionRow, topic: int, number: int) -> Turn:
        prompt, reply = (self.wording.text(int(words), topic) for words in self._numbers.integers(*_WORDS, 2))
        at_ms = _at_ms(number)
        said = (
            TextBlock(f"u{number}", Role.USER, prompt, line=1, at_ms=at_ms),
            TextBlock(f"a{number}", Role.ASSISTANT, reply, line=2, at_ms=at_ms + 1),
        )
        entries = (EntryRef(f"u{number}", 0, 1, 1), EntryRef(f"a{number}", 2, 1, 2))
        return Turn(
            str(number), session.session_id, Opening.PROMPT, said, entries=entries, started_at_ms=at_ms,
            ended_at_ms=at_ms, is_closed=True,
        )  # fmt: skip

    def _episode(self, turn: Turn, topic: int, session: SessionRow) -> Episode:
        return Episode(
            new_episode_id(), Kind.TURN, self.wording.text(_SUMMARY_WORDS, topic),
            self.wording.text(_CONTENT_WORDS, topic), session.session_id, session.project_id,
            created_at_ms=turn.started_at_ms or 0,
        )  # fmt: skip

    def fill_vectors(self, store: Store, embedder: Embedder | None) -> None:
        """A vector near its topic's for every row that was written since the last time."""
        if embedder is None:
            return
        if self._centres is None:
            self._centres = _centres(self.wording, embedder)
        for owner in "pe":
            self._fill_owner(store, embedder.model_id, owner, self._centres)

    def _fill_owner(self, store: Store, model: str, owner: str, centres: NDArray[np.float32]) -> None:
        last = _last(store, owner)
        for start in range(self._embedded[owner] + 1, last + 1, _SLICE):
            ids = range(start, min(start + _SLICE, last + 1))
            # Rows come in the order of their turns, one or two of each.
            turns = self._written if owner == "p" else self._kept
            rows = self._rows(centres, [self._topic((one - 1) * turns // last) for one in ids])
            with store.transaction() as tx:
                put_vectors(tx, model, [(owner, one, 0, row.tobytes()) for one, row in zip(ids, rows, strict=True)])
        self._embedded[owner] = last

    def _topic(self, turn: int) -> int:
        """The topic of a turn by its number from 0: that of its session."""
        return turn // SESSION_TURNS % self.wording.topics

    def _rows(self, centres: NDArray[np.float32], topics: Sequence[int]) -> NDArray[np.float16]:
        texts = centres[topics, self._numbers.integers(0, centres.shape[1], len(topics))]
        noise = self._numbers.standard_normal(texts.shape, dtype=np.float32) * (_NOISE / np.sqrt(texts.shape[1]))
        rows = texts + noise
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float16)


def _centres(wording: Wording, embedder: Embedder) -> NDArray[np.float32]:
    """Vectors of a few texts of each topic."""
    texts = [wording.text(20, topic) for topic in range(wording.topics) for _ in range(2)]
    return np.asarray(embedder.embed(texts), dtype=np.float32).reshape(wording.topics, 2, -1)


def _last(store: Store, owner: str) -> int:
    return count_documents(store, {"p": "passage_fts", "e": "episode_fts"}[owner])


def _at_ms(number: int) -> int:
    return _START_MS + number * 60_000
