"""What a memory rests on, and what other memories say, speaks for it or against it; over a real database."""

from __future__ import annotations

from pathlib import Path

from bench.storing import write_turn
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.projects.projects import ensure_project
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session
from engram.search.searcher import Query, Searcher
from engram.search.support import UNRELATED_COSINE, Support
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn

PROMPT = "Why does the queue lock block the loading worker?"


def add_turn(store: Store, key: str, prompt: str, reply: str) -> int:
    with store.transaction() as tx:
        project = ensure_project(tx, "id-app", "app")
        session = ensure_session(
            tx, "s1", agent="claude-code", project_id=project.id, is_global=False, cwd="", at_ms=1_000
        )
        transcript = ensure_transcript(tx, Path("/t/app.jsonl"), session.id)
        said = (
            TextBlock(f"{key}-u", Role.USER, prompt, line=1, at_ms=1_000),
            TextBlock(f"{key}-a", Role.ASSISTANT, reply, line=2, at_ms=1_001),
        )
        entries = (EntryRef(f"{key}-u", 0, 1, 1), EntryRef(f"{key}-a", 2, 1, 2))
        return write_turn(
            tx,
            Turn(key, session.session_id, Opening.PROMPT, said, entries=entries, started_at_ms=1_000, is_closed=True),
            session,
            transcript,
        )


def save(store: Store, summary: str, *evidence: Evidence) -> Memory:
    with store.transaction() as tx:
        project = ensure_project(tx, "id-app", "app")
        memory = Memory(new_memory_id(), "decision", summary, summary, project_id=project.id)
        return add_memory(tx, memory, evidence, actor=Actor.MODEL)


def ask(store: Store, embedder: HashedEmbedder | None) -> tuple[Support, dict[str, int]]:
    """Return the support of all memories for the prompt, and their row ids by summary."""
    while embedder is not None and embed_missing(store, embedder):
        pass
    searcher = Searcher(store, Settings(), embedder=embedder)
    searcher.refresh()
    query = Query(PROMPT, thorough=True, limit=20)
    hits = searcher.recall(query)
    return searcher.support(query, hits), {hit.text: hit.row_id for hit in hits}


def test_a_memory_is_supported_by_its_entries_and_by_their_turns(store: Store) -> None:
    close = "The queue lock blocks the worker while it is loading."
    turn = add_turn(store, "t1", PROMPT, close)
    other = add_turn(store, "t2", "Rename the button.", "The button is called Save now.")
    save(store, "Loading happens before the lock", Evidence("t1-a", "s1", turn))
    save(store, "Buttons lock when they are pressed", Evidence("t2-a", "s1", other))

    support, rows = ask(store, HashedEmbedder())

    locked, button = rows["Loading happens before the lock"], rows["Buttons lock when they are pressed"]
    assert support.by_source[locked] > support.by_source[button]
    # The prompt of its turn is the question itself, and no entry that the memory rests on.
    assert support.by_turn[locked] > support.by_source[locked]


def test_a_memory_without_evidence_has_no_support_of_its_own(store: Store) -> None:
    save(store, "The queue lock is released after loading")

    support, rows = ask(store, HashedEmbedder())

    assert rows
    assert not support.by_source
    assert not support.by_turn


def test_few_memories_hardly_change_what_is_usual(store: Store) -> None:
    save(store, PROMPT)

    support, _ = ask(store, HashedEmbedder())

    assert UNRELATED_COSINE < support.usual_cosine < 0.25


def test_a_word_that_was_often_said_is_less_rare(store: Store) -> None:
    for number in range(40):
        add_turn(store, f"t{number}", f"Start worker {number}", "The worker runs.")
    save(store, "The queue keeps the worker waiting")

    support, _ = ask(store, HashedEmbedder())

    assert set(support.rarity) == {"queu", "work"}
    assert support.rarity["queu"] > 2 * support.rarity["work"]


def test_without_a_model_the_text_of_its_turn_supports_a_memory(store: Store) -> None:
    turn = add_turn(store, "t1", PROMPT, "The queue lock blocks the worker while it is loading.")
    save(store, "Loading happens before the lock", Evidence("t1-a", "s1", turn))

    support, _ = ask(store, None)

    assert support.text_by_turn == {turn: 1.0}
    assert not support.by_source
