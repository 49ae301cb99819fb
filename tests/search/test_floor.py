"""What shares nothing but a chance word with a question is not shown: nothing found is an answer."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from engram.embedding.embedder import Embedder
from engram.enums import Actor, Scope
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.notes.note_index import index_notes
from engram.redaction import redact
from engram.search.abstain import is_above_floor, is_machine_text, is_unanswered
from engram.search.answer import MAX_DOUBTFUL_HITS, answer_question
from engram.search.hit_lines import DOUBTFUL, UNSURE, answer_text, doubt_about
from engram.search.hits import PublicHit
from engram.search.question import Coverage, Query, parse_query
from engram.search.searcher import Searcher
from engram.search.vectors.loaded_vectors import embed_missing
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


MARKUP = (
    '<svg width="800" height="800"><path d="M400 579.88C593.3 579.88 750 476.905 750 349.88" stroke="#CBAD40" '
    'stroke-width="40" stroke-linecap="round"/><path d="M414.049 398.858 418.666 395.722C423.341 392.585"/></svg>'
)


@pytest.mark.parametrize("question", ["how do we round VAT", "is the round table oiled"])
def test_pasted_markup_is_not_an_answer_to_a_question_that_shares_a_word_with_it(
    searcher: Searcher, store: Store, question: str
) -> None:
    tell(store, "markup", MARKUP)
    searcher.refresh()

    assert all("stroke" not in hit.text for hit in answer_question(store, searcher, Query(question)).hits)
    assert any("stroke" in hit.text for hit in searcher.search(Query("stroke-linecap round")))


@pytest.mark.parametrize(
    ("text", "is_machine"),
    [
        (MARKUP, True),
        (
            "\n".join(
                f"[12:03:2{n}.415] [API] GET /api/evaluations/6e47bfce-{n} -> http://localhost:3001" for n in range(5)
            ),
            True,
        ),
        ("    at div\n    at http://localhost:3000/chunk-36jrqfj4.js:31388:20\n" * 8, True),
        (
            " ".join([*TOLD, "See `walrus.go:12`, `lantern.go:40` and https://example.org/a/long/address?page=2."]),
            False,
        ),
        ("灯台は夕暮れに点灯し、当番は時刻を記録します。" * 12, False),
        ("pier-7/b: 3", False),
        ("- `api/handlers.py`: `handle_upload()` → `UploadQueue.put()`\n- `models.py`: `UploadState`\n" * 3, False),
        # Vowels and accents that are marks on letters.
        ("हमने डेटाबेस के लिए पोस्टग्रेस चुना क्योंकि हमें लेनदेन की आवश्यकता है और सभी टीमें इसे जानती हैं। " * 3, False),
        ("اِخْتَرْنَا قَاعِدَةَ البَيَانَاتِ لِأَنَّنَا نَحْتَاجُ إِلَى المُعَامَلَاتِ. " * 5, False),
        (unicodedata.normalize("NFD", "Chúng tôi chọn cơ sở dữ liệu này vì mọi nhóm đều đã biết nó. " * 5), False),
    ],
)
def test_machine_text_is_known_by_its_lack_of_words(text: str, is_machine: bool) -> None:
    assert is_machine_text(text) == is_machine


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


@pytest.mark.parametrize("searcher", ["with vectors"], indirect=True)
@pytest.mark.parametrize(
    "question",
    [
        "who audits the accounts of the company this year?",
        "which insurance pays for the damage of the storm?",
        "how do we deploy the website to the Kubernetes cluster?",
    ],
)
def test_where_nothing_answers_that_is_said_first_with_a_few_of_the_closest(
    searcher: Searcher, store: Store, question: str
) -> None:
    hits = answer_question(store, searcher, Query(question, now_ms=NOW + 1000)).hits

    assert len(hits) <= MAX_DOUBTFUL_HITS
    assert all(hit.is_doubtful for hit in hits)
    assert not hits or answer_text(hits).splitlines()[1] == DOUBTFUL == "Nothing here answers that; closest:"


@pytest.mark.parametrize(
    ("question", "doubt"),
    [
        ("does the keeper write the invoices of the baker?", UNSURE),
        ("Which headers does the walrus proxy drop?", ""),
        ('"on time unless the"', ""),
        ("which hour does the Zanzibar keeper write into the log?", UNSURE),
    ],
)
def test_where_only_a_few_words_match_that_is_said_first(
    store: Store, settings: Settings, question: str, doubt: str
) -> None:
    for number, text in enumerate(TOLD):
        tell(store, f"t{number}", text)

    hits = answer_question(store, Searcher(store, settings), Query(question, now_ms=NOW + 1000)).hits

    assert hits
    assert doubt_about(hits) == doubt
    assert [PublicHit.from_json(hit.to_json()).is_unsure for hit in hits] == [bool(doubt)] * len(hits)


def test_a_saved_memory_with_the_words_of_the_question_answers_it_in_a_store_without_transcripts(
    store: Store, settings: Settings
) -> None:
    save_memory(store, "The cache lives in SQLite.", redact, actor=Actor.USER, scope=Scope.GLOBAL)

    hits = answer_question(store, Searcher(store, settings), Query("where does the cache live")).hits

    assert [hit.text for hit in hits] == ["The cache lives in SQLite."]
    assert doubt_about(hits) == ""


def test_a_name_that_only_a_saved_memory_contains_is_known(store: Store, settings: Settings) -> None:
    for number, text in enumerate(TOLD):
        tell(store, f"t{number}", text)
    save_memory(store, "Redis expires the cache.", redact, actor=Actor.USER, scope=Scope.GLOBAL)

    hits = answer_question(store, Searcher(store, settings), Query("how does Redis light the lantern")).hits

    assert hits[0].text == "Redis expires the cache."
    assert doubt_about(hits) == ""


def test_a_phrase_of_common_words_is_found_as_it_is_written(searcher: Searcher, store: Store) -> None:
    hits = answer_question(store, searcher, Query('"to the"', now_ms=NOW + 1000)).hits

    assert ["to the" in hit.text for hit in hits] == [True] * 2
    assert doubt_about(hits) == ""


@pytest.mark.parametrize("searcher", ["with vectors"], indirect=True)
@pytest.mark.parametrize(
    "question", ["how do we name ISL", "who counts the HAR?", "do we drop IGHT", "what is the name of EEP"]
)
def test_a_name_that_only_occurs_within_words_is_not_taken_for_known(
    searcher: Searcher, store: Store, question: str
) -> None:
    hits = answer_question(store, searcher, Query(question, now_ms=NOW + 1000)).hits

    assert all(hit.is_doubtful for hit in hits)


@pytest.mark.parametrize(
    "question", ["when is the crane oiled?", "crane", "What does the walrus proxy drop?", "what of the best pier"]
)
def test_what_answers_is_not_doubted(searcher: Searcher, store: Store, question: str) -> None:
    hits = answer_question(store, searcher, Query(question, now_ms=NOW + 1000)).hits

    assert hits
    assert not any(hit.is_doubtful for hit in hits)


@pytest.mark.parametrize(
    ("support", "cosine", "is_none"),
    [(1.0, 0.32, True), (1.0, 0.34, False), (1.19, 0.1, True), (1.2, 0.1, False), (0.2, 0.5, False)],
)
def test_nothing_answers_where_little_supports_a_question_and_nothing_is_near(
    support: float, cosine: float, is_none: bool
) -> None:
    assert is_unanswered(support, cosine, 0.3) is is_none


def test_a_text_without_a_vector_is_not_a_reason_to_doubt(searcher: Searcher) -> None:
    found = searcher.search(Query("which insurance pays for the damage of the storm?", thorough=True))

    assert searcher.is_unanswered(found, [0.1, None]) is None
    assert searcher.is_unanswered([], [None]) is None


@pytest.mark.parametrize("days_later", [0, 3, 40])
def test_what_was_not_said_at_the_time_that_is_named_answers_nothing(
    searcher: Searcher, store: Store, days_later: int
) -> None:
    now = NOW + days_later * 86_400_000 + 1000

    hits = answer_question(
        store, searcher, Query("what did we find out today about the walrus proxy?", now_ms=now)
    ).hits

    assert hits
    assert all(hit.is_doubtful for hit in hits) is (days_later > 0)
