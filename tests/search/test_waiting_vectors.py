"""A text that waits for its vector is found as well as without any model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from bench.storing import write_turn
from engram.embedding.embedder import Embedder
from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.projects.projects import ensure_project
from engram.models.search.vector_rows import vector_owner_ids
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session
from engram.search.answer import answer_question
from engram.search.hits import Hit
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.search.vectors.loaded_vectors import VectorCache, embed_missing
from engram.settings import Settings
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn

NOW = 1_767_225_600_000
#: What was said, a turn each: some close to others, so that a neighbour's vector could push a text out.
SAID = (
    "The importer wrote every row twice because the retry did not check the batch number.",
    "Sessions are kept in Redis with a lifetime of twenty minutes.",
    "We moved the cache of sessions out of Redis and into SQLite.",
    "The nightly backup fails when the disk of the build machine is full.",
    "Pagination starts at zero in the old API and at one in the new one.",
    "The date parser takes 03/04 for the third of April only with the British locale.",
    "Retries of the importer wait for fifteen seconds and then for thirty.",
    "The login page redirects for ever if the cookie has no domain.",
    "Build images are cleaned up on Sunday, so Monday's first build is slow.",
    "The export writes UTF-8 with a byte order mark for the sake of Excel.",
    "A lock of the queue was held while the model was being loaded.",
    "The test of the parser depends on the time zone of the machine.",
)


class PartialCache(VectorCache):
    """The vectors of a memory, without those of some rows."""

    def drop(self, ids: Collection[int]) -> None:
        """Forget the vectors of these rows."""
        self._index.remove(sorted(ids))


def fill(store: Store, said: Sequence[str], embedder: Embedder) -> None:
    with store.transaction() as tx:
        project = ensure_project(tx, "id-app", "app")
        session = ensure_session(
            tx, "s-app", agent="claude-code", project_id=project.id, is_global=False, cwd="", at_ms=NOW
        )
        transcript = ensure_transcript(tx, Path("/t/app.jsonl"), session.id)
        for number, text in enumerate(said):
            at_ms = NOW + number * 60_000
            block = TextBlock(f"u{number}", Role.ASSISTANT, text, line=number + 1, at_ms=at_ms)
            entries = (EntryRef(f"u{number}", number * 2, 1, number + 1),)
            turn = Turn(
                f"t{number}",
                session.session_id,
                Opening.PROMPT,
                (block,),
                entries=entries,
                started_at_ms=at_ms,
                is_closed=True,
            )
            write_turn(tx, turn, session, transcript)
            memory = Memory(new_memory_id(), "fact", text, text, project_id=project.id)
            add_memory(tx, memory, [Evidence(f"u{number}")], actor=Actor.MODEL)
    while embed_missing(store, embedder):
        pass


def searcher_without(store: Store, embedder: Embedder, is_missing: Sequence[bool]) -> Searcher:
    """Return a searcher that lacks the vectors of the marked texts, and of the memories made of them."""
    caches = {}
    for owner in "pen":
        caches[owner] = PartialCache(owner, embedder.model_id, embedder.dimension)
        caches[owner].refresh(store)
        ids = sorted(set(vector_owner_ids(store, owner)))
        caches[owner].drop([row_id for row_id, missing in zip(ids, is_missing, strict=False) if missing])
    return Searcher(store, Settings(), embedder=embedder, vectors=caches)


def place_of(text: str, hits: Sequence[Hit]) -> int:
    return next(place for place, hit in enumerate(hits) if text in hit.text)


@pytest.mark.parametrize(
    "is_missing",
    [
        pytest.param([number % 2 == 0 for number in range(len(SAID))], id="every second"),
        pytest.param([number % 2 == 1 for number in range(len(SAID))], id="the other half"),
        pytest.param([number > 0 for number in range(len(SAID))], id="all but one"),
        pytest.param([number == 3 for number in range(len(SAID))], id="one"),
    ],
)
def test_a_text_is_found_by_its_own_words_as_early_as_without_a_model(
    store: Store, bundled: Embedder, is_missing: list[bool]
) -> None:
    fill(store, SAID, bundled)
    searcher, without_model = searcher_without(store, bundled, is_missing), Searcher(store, Settings())

    for text in SAID:
        query = Query(text, now_ms=NOW)
        hits = searcher.search(query)

        assert place_of(text, hits) <= place_of(text, without_model.search(query))
        assert not hits[place_of(text, hits)].is_doubtful
        assert place_of(text, searcher.recall(query)) == 0


def test_a_waiting_text_that_shares_no_words_is_not_shown_as_an_answer(store: Store, bundled: Embedder) -> None:
    fill(store, SAID, bundled)
    searcher = searcher_without(store, bundled, [number % 2 == 0 for number in range(len(SAID))])

    hits = searcher.search(Query("Who won the chess tournament in Reykjavik in the spring?", now_ms=NOW))

    assert all(hit.is_doubtful for hit in hits)


@pytest.mark.parametrize("missing", [set(), set(range(len(SAID))), set(range(1, len(SAID)))])
@pytest.mark.parametrize("max_hits", [1, 2, None])
def test_a_memory_that_shares_one_word_is_not_before_the_text_that_was_asked_for(
    store: Store, bundled: Embedder, missing: set[int], max_hits: int | None
) -> None:
    fill(store, SAID, bundled)
    with store.transaction() as tx:
        text = "Left open: the user asked for a review of the queue at the pier and stopped before it was done."
        project = ensure_project(tx, "id-app", "app")
        memory = Memory(new_memory_id(), "state", text, text, project_id=project.id)
        add_memory(tx, memory, [Evidence("u1")], actor=Actor.MODEL)
    searcher = searcher_without(store, bundled, [number in missing for number in range(len(SAID))])

    answer = answer_question(
        store, searcher, Query("queue lock held while the model was loaded", now_ms=NOW, max_hits=max_hits)
    )

    assert "A lock of the queue" in answer.hits[0].text
