"""What shares nothing but a chance word with a question is not shown: nothing found is an answer."""

from __future__ import annotations

import numpy as np
import pytest

from engram.embedding.embedder import Embedder
from engram.models.engine.transaction import Store
from engram.notes.note_index import index_notes
from engram.redaction import redact
from engram.search.abstain import is_above_floor
from engram.search.answer import answer_question
from engram.search.question import Coverage, Query, parse_query
from engram.search.searcher import Searcher
from engram.search.vectors.stored_vectors import embed_missing
from engram.settings import Settings
from tests.search.test_phrases import NOW, tell

TOLD = (
    "The walrus proxy drops headers that are longer than eight kilobytes.",
    "The lantern is lit at dusk, and the keeper writes the hour into the log.",
    "Barrels are counted from the best pier to the worst one, and the name of each is read out.",
    "The ferry to the islands leaves on time unless the tide is too low.",
)
#: Questions that share a word or none with what was said.
ELSEWHERE = (
    "What is the capital of France?",
    "What is a good name for a dog?",
    "best hiking trail near the lake",
    "Which films won the Oscar in 1994?",
    "Which of the oranges are low in vitamins?",
    "How many legs does a spider have?",
)


@pytest.fixture(params=["text alone", "with vectors"])
def searcher(request: pytest.FixtureRequest, store: Store, settings: Settings, bundled: Embedder) -> Searcher:
    for number, text in enumerate(TOLD):
        tell(store, f"t{number}", text)
    note = settings.places.notes / "harbour.md"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("# Harbour\n\nThe crane is oiled on Mondays, which is a good day.\n\n# Rate\n\nTwo per hour.\n")
    index_notes(store, settings, redact)
    embedder = bundled if request.param == "with vectors" else None
    searcher = Searcher(store, settings, embedder=embedder)
    while embedder is not None and embed_missing(store, embedder):
        pass
    searcher.refresh()
    return searcher


@pytest.mark.parametrize("question", ELSEWHERE)
def test_nothing_is_found_for_a_question_about_something_else(searcher: Searcher, store: Store, question: str) -> None:
    query = Query(question, now_ms=NOW + 1000, limit=10)

    assert searcher.search(query) == []
    assert answer_question(store, searcher, query).hits == ()


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("walrus", "walrus proxy"),
        ("Which headers does the proxy drop?", "drops headers"),
        ("When is the lantern lit?", "lit at dusk"),
        ("crane oiled", "oiled on Mondays"),
        ("Does the ferry leave on time?", "leaves on time"),
    ],
)
def test_what_has_the_words_of_the_question_is_found(searcher: Searcher, question: str, words: str) -> None:
    assert any(words in hit.text for hit in searcher.search(Query(question, now_ms=NOW + 1000)))


def test_a_note_that_shares_nothing_is_not_shown_beside_one_that_does(searcher: Searcher) -> None:
    notes = [hit for hit in searcher.search(Query("crane oiled", limit=10)) if hit.kind == "note"]

    assert [hit.text.splitlines()[0] for hit in notes] == ["Harbour"]


@pytest.mark.parametrize(
    ("text", "cosine", "is_shown"),
    [
        ("something else", 0.16, True),
        ("something else", 0.14, False),
        ("the proxy", 0.0, False),
        ("the proxy drops headers", 0.0, True),
        ("the proxy", np.nan, False),
        ("headers of the proxy", np.nan, True),
        ("the walrus", np.nan, True),
    ],
)
def test_below_half_of_the_cosine_of_what_is_related_only_words_speak(text: str, cosine: float, is_shown: bool) -> None:
    query = parse_query(Query("Does the walrus proxy drop long headers?"), NOW)
    coverage = Coverage(query.terms, {"walrus": 1, "proxy": 400, "drop": 40, "long": 300, "headers": 50}, 1000)

    assert is_above_floor(text, cosine, query, coverage, 0.3) == is_shown
