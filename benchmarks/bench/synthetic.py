"""Fill a memory with synthetic turns, memories and vectors, always the same ones, to time a large memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.text_generator import TextGenerator
from engram.embedding.embedder import Embedder
from engram.enums import Actor, Kind
from engram.models.engine.transaction import Store, Tx
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.projects.projects import ensure_project
from engram.models.search.fulltext import count_documents
from engram.models.search.vector_rows import put_vectors
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import SessionRow, ensure_session
from engram.models.sessions.turn_changes import write_turns
from engram.models.shown.usage import count_totals
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn

#: Number of turns per session and per transaction.
SESSION_TURNS = 50
#: Number of projects; sessions belong to them in rotation.
PROJECTS = 20
#: Minimum and maximum number of words in a prompt and in a reply, each of which is one passage.
_WORDS = (12, 60)
_SUMMARY_WORDS, _CONTENT_WORDS = 25, 60
_START_MS = 1_700_000_000_000
#: Number of vectors written in one transaction.
_SLICE = 5_000
#: Length of the noise added to a topic's vector. It makes the rows of a topic about as similar as real texts about one.
_NOISE = 1.1


class SyntheticMemory:
    """Writes synthetic turns and memories, always the same ones.

    Every session has a topic. A row's vector is that of a text about its topic, embedded by the real model, plus noise:
    embedding a million texts takes too long for a benchmark, and a question must be close to only some of the rows.
    """

    def __init__(self, seed: int = 7, *, texts: TextGenerator | None = None, max_memories: int | None = None) -> None:
        """Create a writer.

        Args:
            seed: the same seed gives the same texts.
            texts: the source of texts.
            max_memories: maximum number of memories; one for each turn if None.
        """
        self.texts = texts or TextGenerator(seed)
        self._max_memories = max_memories
        self._turn_count = 0
        self._memory_count = 0
        #: Row id of the last passage and the last memory with a vector.
        self._embedded = {"p": 0, "e": 0}
        self._numbers = np.random.default_rng(seed)
        self._centres: NDArray[np.float32] | None = None

    @property
    def turn_count(self) -> int:
        """Number of turns written."""
        return self._turn_count

    @property
    def memory_count(self) -> int:
        """Number of memories written."""
        return self._memory_count

    @property
    def vector_count(self) -> int:
        """Number of vectors written."""
        return sum(self._embedded.values())

    def question(self, project: int | None = None) -> str:
        """Return a question of 5 to 12 words about a session's topic; ``project`` is the number of its project."""
        topic = int(self._numbers.integers(self.texts.topics))
        if project is not None:
            # The session's number determines both its topic and its project.
            topic = (topic // PROJECTS * PROJECTS + project) % self.texts.topics
        return self.texts.text(int(self._numbers.integers(5, 13)), topic)

    def resume(self, store: Store) -> None:
        """Continue filling an existing memory."""
        self._turn_count, self._memory_count = count_totals(store).turns, _last_row_id(store, "e")
        self._embedded = {owner: _last_row_id(store, owner) for owner in "pe"}

    def fill(self, store: Store, turns: int, embedder: Embedder | None) -> None:
        """Write turns, up to ``turns`` in all, with their memories and vectors."""
        while self._turn_count < turns:
            self.add(store, min(SESSION_TURNS - self._turn_count % SESSION_TURNS, turns - self._turn_count))
        self.fill_vectors(store, embedder)

    def add(self, store: Store, turns: int) -> None:
        """Write a few turns of one session in one transaction."""
        topic = self._topic(self._turn_count)
        with store.transaction() as tx:
            session = self._session(tx)
            transcript = ensure_transcript(tx, Path(f"/{session.session_id}.jsonl"), session.id)
            numbers = range(self._turn_count, self._turn_count + turns)
            new_turns = [self._turn(session, topic, number) for number in numbers]
            ids = write_turns(tx, new_turns, session, transcript)
            for turn, turn_id in zip(new_turns, ids, strict=True):
                if self._max_memories is None or self._memory_count < self._max_memories:
                    evidence = Evidence(turn.said[-1].uuid, session.session_id, turn_id)
                    add_memory(tx, self._memory(turn, topic, session), [evidence], actor=Actor.MODEL)
                    self._memory_count += 1
        self._turn_count += turns

    def _session(self, tx: Tx) -> SessionRow:
        number = self._turn_count // SESSION_TURNS
        project = ensure_project(tx, f"project-{number % PROJECTS}", f"project-{number % PROJECTS}")
        return ensure_session(
            tx,
            f"session-{number}",
            agent="claude-code",
            project_id=project.id,
            is_global=False,
            cwd="",
            at_ms=_at_ms(self._turn_count),
        )

    def _turn(self, session: SessionRow, topic: int, number: int) -> Turn:
        prompt, reply = (self.texts.text(int(words), topic) for words in self._numbers.integers(*_WORDS, 2))
        at_ms = _at_ms(number)
        blocks = (
            TextBlock(f"u{number}", Role.USER, prompt, line=1, at_ms=at_ms),
            TextBlock(f"a{number}", Role.ASSISTANT, reply, line=2, at_ms=at_ms + 1),
        )
        entries = (EntryRef(f"u{number}", 0, 1, 1), EntryRef(f"a{number}", 2, 1, 2))
        return Turn(
            key=str(number),
            session_id=session.session_id,
            opening=Opening.PROMPT,
            said=blocks,
            entries=entries,
            started_at_ms=at_ms,
            ended_at_ms=at_ms,
            is_closed=True,
        )

    def _memory(self, turn: Turn, topic: int, session: SessionRow) -> Memory:
        return Memory(
            episode_id=new_memory_id(),
            kind=Kind.TURN,
            summary=self.texts.text(_SUMMARY_WORDS, topic),
            content=self.texts.text(_CONTENT_WORDS, topic),
            session_id=session.session_id,
            project_id=session.project_id,
            created_at_ms=turn.started_at_ms or 0,
        )

    def fill_vectors(self, store: Store, embedder: Embedder | None) -> None:
        """Write a vector close to its topic's for every row without one."""
        if embedder is None:
            return
        if self._centres is None:
            self._centres = _centres(self.texts, embedder)
        for owner in "pe":
            self._fill_owner(store, embedder.model_id, owner, self._centres)

    def _fill_owner(self, store: Store, model: str, owner: str, centres: NDArray[np.float32]) -> None:
        last = _last_row_id(store, owner)
        for start in range(self._embedded[owner] + 1, last + 1, _SLICE):
            ids = range(start, min(start + _SLICE, last + 1))
            # Rows are in the order of their turns, with one or two for each turn.
            turns = self._turn_count if owner == "p" else self._memory_count
            rows = self._rows(centres, [self._topic((row_id - 1) * turns // last) for row_id in ids])
            with store.transaction() as tx:
                put_vectors(
                    tx, model, [(owner, row_id, 0, row.tobytes()) for row_id, row in zip(ids, rows, strict=True)]
                )
        self._embedded[owner] = last

    def _topic(self, turn: int) -> int:
        """Return the topic of a turn, given its number from 0: the topic of its session."""
        return turn // SESSION_TURNS % self.texts.topics

    def _rows(self, centres: NDArray[np.float32], topics: Sequence[int]) -> NDArray[np.float16]:
        vectors = centres[topics, self._numbers.integers(0, centres.shape[1], len(topics))]
        noise = self._numbers.standard_normal(vectors.shape, dtype=np.float32) * (_NOISE / np.sqrt(vectors.shape[1]))
        rows = vectors + noise
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float16)


def _centres(texts: TextGenerator, embedder: Embedder) -> NDArray[np.float32]:
    """Return the vectors of two texts for each topic."""
    samples = [texts.text(20, topic) for topic in range(texts.topics) for _ in range(2)]
    return np.asarray(embedder.embed(samples), dtype=np.float32).reshape(texts.topics, 2, -1)


def _last_row_id(store: Store, owner: str) -> int:
    return count_documents(store, {"p": "passage_fts", "e": "episode_fts"}[owner])


def _at_ms(number: int) -> int:
    return _START_MS + number * 60_000
