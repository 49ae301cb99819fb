"""Words in quotes are found as they stand, and where nobody said the words, that comes first."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Literal

import pytest

from bench.storing import write_turn
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.projects.projects import ensure_project
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session
from engram.notes.note_index import index_notes
from engram.redaction import redact
from engram.search.answer import answer_question
from engram.search.question import Query
from engram.search.quoted_phrases import find_phrases, only_name, phrases_of, text_around
from engram.search.searcher import NOBODY_SAID_ANY, NOBODY_SAID_PHRASE, NOBODY_SAID_WORDS, Searcher
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn
from tests.each_case import each_case

NOW = 1_767_225_600_000


def tell(store: Store, key: str, reply: str, *, project: str = "app") -> None:
    with store.transaction() as tx:
        row = ensure_project(tx, f"id-{project}", project)
        session = ensure_session(
            tx, f"s-{project}", agent="claude-code", project_id=row.id, is_global=False, cwd="", at_ms=NOW
        )
        transcript = ensure_transcript(tx, Path(f"/t/{project}.jsonl"), session.id)
        said = (
            TextBlock(f"{key}-u", Role.USER, "Please go on.", line=1, at_ms=NOW),
            TextBlock(f"{key}-a", Role.ASSISTANT, reply, line=2, at_ms=NOW + 1),
        )
        entries = (EntryRef(f"{key}-u", 0, 1, 1), EntryRef(f"{key}-a", 2, 1, 2))
        turn = Turn(key, session.session_id, Opening.PROMPT, said, entries=entries, started_at_ms=NOW, is_closed=True)
        write_turn(tx, turn, session, transcript)


@pytest.fixture(params=["text alone", "with vectors"])
def searcher(request: pytest.FixtureRequest, store: Store) -> Searcher:
    tell(store, "t1", "The outbox writes with INSERT OR IGNORE, so that a row that came twice stays one row.")
    tell(store, "t2", "We ignore the insert or log it; the outbox is inserted later, or ignored if it came twice.")
    tell(store, "t3", "The walrus proxy’s limit is 40 — “never more”, the vendor said. 数据库连接池的上限是二十。")
    tell(store, "t4", "INSERT OR IGNORE is used in the other place as well.", project="other")
    filler = " ".join(f"Sentence number {number} fills the passage with plain words." for number in range(12))
    tell(store, "t5", f"{filler} The lighthouse keeper counts the green barrels. {filler}")
    embedder = HashedEmbedder() if request.param == "with vectors" else None
    searcher = Searcher(store, Settings(), embedder=embedder)
    while embedder is not None and embed_missing(store, embedder):
        pass
    searcher.refresh()
    return searcher


def entries_of(searcher: Searcher, text: str, project_id: int | None = None) -> tuple[set[str], str]:
    found, unsaid = searcher.look_up(Query(text, limit=10, project_id=project_id))
    return {place.uuid for hit in found for place in hit.evidence}, unsaid


@each_case(
    ("text", "entries"),
    [
        ('"INSERT OR IGNORE"', {"t1-a", "t4-a"}),
        ('"insert or ignore" outbox', {"t1-a", "t4-a"}),
        ("“insert or ignore”", {"t1-a", "t4-a"}),
        ("„insert or ignore“ walrus", {"t1-a", "t4-a"}),
        ('"insert  or\nignore," "came twice"', {"t1-a"}),
        ('"walrus proxy\'s limit"', {"t3-a"}),
        ('"limit is 40 - " "never more"', {"t3-a"}),
        ("「连接池」", {"t3-a"}),
        ('"the lighthouse keeper counts the green barrels"', {"t5-a"}),
        ('"plain words. The lighthouse keeper"', {"t5-a"}),
    ],
)
def test_a_phrase_is_found_as_it_stands(searcher: Searcher, text: str, entries: set[str]) -> None:
    assert entries_of(searcher, text) == (entries, "")


@each_case(
    "text",
    ['"IGNORE OR INSERT"', '"walrus limit"', '"proxy" "INSERT OR IGNORE"', '"nsert or ignore"', '"insert_or_ignore"'],
)
def test_what_nobody_said_in_these_words_is_named_before_what_comes_closest(searcher: Searcher, text: str) -> None:
    entries, unsaid = entries_of(searcher, text)

    assert unsaid == NOBODY_SAID_PHRASE
    assert entries or searcher.search(Query(text)) == []


@each_case(
    ("text", "unsaid"),
    [
        ("walrus proxy limit", ""),
        ("the limit of the walrus proxies", ""),
        ("连接池", ""),
        ("lighthouse barrels passage", ""),
        ("lighthouse outbox", NOBODY_SAID_WORDS),
        ("walrus outbox", NOBODY_SAID_WORDS),
        ("kubernetes limit", "Nobody said “kubernetes”; closest:"),
        ("zebra crossing", NOBODY_SAID_ANY),
        ("zebra", "Nobody said “zebra”; closest:"),
        ("zebra limit giraffe", "Nobody said “zebra” or “giraffe”; closest:"),
        ("???", ""),
        ("", ""),
    ],
)
def test_words_that_no_text_has_together_are_named(searcher: Searcher, text: str, unsaid: str) -> None:
    assert entries_of(searcher, text)[1] == unsaid


def test_the_closest_texts_are_those_with_most_of_the_rare_words(searcher: Searcher) -> None:
    found, unsaid = searcher.look_up(Query("kubernetes lighthouse barrels outbox", limit=10))
    shares = [sum(word in hit.text.lower() for word in ("lighthouse", "barrels", "outbox")) for hit in found]

    assert unsaid == "Nobody said “kubernetes”; closest:"
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 2


def test_without_quotes_what_has_the_whole_question_comes_first(searcher: Searcher) -> None:
    found, unsaid = searcher.look_up(Query("insert or ignore", limit=10))

    assert unsaid == ""
    assert {place.uuid for hit in found[:2] for place in hit.evidence} == {"t1-a", "t4-a"}
    assert len({hit.id for hit in found}) == len(found)


def test_a_word_that_is_not_a_term_is_found_as_it_stands(searcher: Searcher, store: Store) -> None:
    tell(store, "t6", "Drive C is full. That is why: the log grew.")

    for text in ("C", "why"):
        found, unsaid = searcher.look_up(Query(text, limit=1))
        assert ([place.uuid for hit in found for place in hit.evidence], unsaid) == (["t6-a"], ""), text


def test_a_phrase_of_another_project_is_not_found(searcher: Searcher, store: Store) -> None:
    with store.transaction() as tx:
        other = ensure_project(tx, "id-other", "other").id

    assert entries_of(searcher, '"insert or ignore"', other) == ({"t4-a"}, "")
    assert entries_of(searcher, '"walrus proxy\'s limit"', other)[1] == "Nobody said this in other; closest:"
    assert entries_of(searcher, "walrus proxy", other)[1] == "Nobody said any of these words in other; closest:"


def test_a_word_that_nobody_said_is_named_as_it_was_typed(searcher: Searcher) -> None:
    assert entries_of(searcher, "NoKubernetesVal")[1] == "Nobody said “NoKubernetesVal”; closest:"


def test_the_hit_shows_the_phrase_though_it_stands_behind_a_long_text(searcher: Searcher) -> None:
    found, _ = searcher.look_up(Query('"keeper counts the green"'))

    assert "The lighthouse keeper counts the green barrels." in found[0].text
    assert len(found[0].text.split()) <= 62


def test_notes_are_searched_for_phrases_too(searcher: Searcher, store: Store, settings: Settings) -> None:
    note = settings.places.notes / "ferry.md"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("# Ferry\n\nThe night ferry leaves from pier nine.\n\n# Pier\n\nNine ferries leave at night.\n")
    index_notes(store, settings, redact)

    found, unsaid = searcher.look_up(Query('"night ferry leaves"'))

    assert (len(found), unsaid, found[0].kind) == (1, "", "note")
    assert "The night ferry leaves from pier nine." in found[0].text


@each_case(
    ("text", "phrases"),
    [
        ('say "one two." and "three"', ("one two", "three")),
        ('an "open quote', ()),
        ('"" "()" " "', ()),
        ('«un deux» 『三』 "four" "four"', ("un deux", "三", "four")),
        ("the user's own", ()),
    ],
)
def test_quotes_of_all_kinds_hold_a_phrase(text: str, phrases: tuple[str, ...]) -> None:
    assert phrases_of(text) == phrases


@each_case(
    ("phrase", "text", "is_there"),
    [
        ("--dry-run", "run it with --dry-run first", True),
        ("dry-run", "run it with dry run first", False),
        ("foo()", "call foo() twice", True),
        ("foo()", "call foo twice", False),
        ("we never push", "But we **never**\npush to main", True),
        ("it's done", "It’s done", True),
        ("key = value", "key=value", True),
        ("main", "the domain and the mainline", False),
        ("a.b", "a b", False),
        ("straße", "Die STRASSE und die Straße", True),
    ],
)
def test_signs_within_a_phrase_matter_and_their_shape_does_not(phrase: str, text: str, is_there: bool) -> None:
    assert bool(find_phrases(text, [phrase])) == is_there


def test_a_sentence_without_an_end_is_cut_around_the_phrase() -> None:
    text = " ".join(f"word{number}" for number in range(500))

    shown = text_around(text, find_phrases(text, ["word250 word251"]))

    assert "word250 word251" in shown
    assert len(shown.split()) <= 62


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
@pytest.mark.parametrize("text", ["Größe der Łódź-Tabelle", '"größe der Łódź-Tabelle"', '"größe"', '"résumé.py"'])
def test_letters_are_the_same_whether_or_not_their_marks_are_separate(
    store: Store, stored: Literal["NFC", "NFD"], asked: Literal["NFC", "NFD"], text: str
) -> None:
    tell(store, "t1", unicodedata.normalize(stored, "Die Größe der Łódź-Tabelle steht in résumé.py."))

    found, unsaid = entries_of(Searcher(store, Settings()), unicodedata.normalize(asked, text))

    assert ("t1-a" in found, unsaid) == (True, "")


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("text", ["İzmir sunucusu", '"İZMİR sunucusu"', "izmir sunucusu"])
def test_a_capital_i_with_a_dot_is_found_by_either_case(store: Store, text: str, stored: Literal["NFC", "NFD"]) -> None:
    tell(store, "t1", unicodedata.normalize(stored, "İzmir sunucusu yeniden başlatıldı."))

    found, unsaid = entries_of(Searcher(store, Settings()), text)

    assert ("t1-a" in found, unsaid) == (True, "")


@pytest.mark.parametrize("asked", ["Vi\u1ec7t", "VI\u1ec6T", "Vie\u0323\u0302t", "Vi\u1eb9\u0302t", "Vi\xea\u0323t"])
@pytest.mark.parametrize(
    "stored", ["Vi\u1ec7t", "Vie\u0323\u0302t", "Vie\u0302\u0323t", "Vi\u1eb9\u0302t", "Vi\xea\u0323t"]
)
def test_a_letter_of_two_marks_is_the_same_however_many_of_them_are_separate(stored: str, asked: str) -> None:
    text = f"Die {stored}-Karte"

    ((start, stop),) = find_phrases(text, phrases_of(Query(f'"{asked}"').text))

    assert text[start:stop] == stored
    assert find_phrases("Die Viet-Karte und die Vi\xeat-Karte", phrases_of(Query(f'"{asked}"').text)) == []


@pytest.mark.parametrize("text", ["cold oven", "why is the cold oven"])
def test_the_reply_to_a_prompt_that_has_the_words_is_shown_beside_it(store: Store, text: str) -> None:
    with store.transaction() as tx:
        row = ensure_project(tx, "id-app", "app")
        session = ensure_session(tx, "s", agent="codex", project_id=row.id, is_global=False, cwd="", at_ms=NOW)
        transcript = ensure_transcript(tx, Path("/t/app.jsonl"), session.id)
        said = (
            TextBlock("u", Role.USER, "Why is the cold oven not heated?", line=1, at_ms=NOW),
            TextBlock("a", Role.ASSISTANT, "The oven is cold because relay R2 is stuck.", line=2, at_ms=NOW + 1),
        )
        entries = (EntryRef("u", 0, 1, 1), EntryRef("a", 2, 1, 2))
        turn = Turn("u", "s", Opening.PROMPT, said, entries=entries, started_at_ms=NOW, is_closed=True)
        write_turn(tx, turn, session, transcript)

    found, unsaid = Searcher(store, Settings()).look_up(Query(text))

    assert [hit.text for hit in found] == [
        "Why is the cold oven not heated?",
        "The oven is cold because relay R2 is stuck.",
    ]
    assert unsaid == ""


def test_a_name_in_code_is_found_as_it_is_written(searcher: Searcher, store: Store) -> None:
    for number in range(4):
        tell(store, f"n{number}", f"Use the barrel context of pier {number}: the use of a context counts for barrels.")
    tell(store, "name", "The lantern crashed, because useBarrelContext returned undefined outside of its provider.")

    for asked in ("useBarrelContext", "`useBarrelContext`", "usebarrelcontexT"):
        hits = answer_question(store, searcher, Query(asked)).hits
        assert ["useBarrelContext" in hit.text for hit in hits] == [True]
    found, _ = searcher.look_up(Query("useBarrelContext"))
    assert ["useBarrelContext" in hit.text for hit in found] == [True]


@pytest.mark.parametrize("name", ["deploy_key", "PostgreSQL"])
def test_a_memory_that_has_the_name_only_in_its_content_is_an_answer(store: Store, name: str) -> None:
    tell(store, "t1", f"{name} is in the drawer.")
    with store.transaction() as tx:
        content = f"The harbour wants a yearly renewal.\n{name} is renewed in May."
        memory = Memory(new_memory_id(), "decision", "The harbour wants a yearly renewal.", content)
        add_memory(tx, memory, [Evidence("t1-a")], actor=Actor.USER)

    hits = answer_question(store, Searcher(store, Settings()), Query(name)).hits

    assert memory.episode_id in {hit.id for hit in hits}
    assert not any(hit.is_doubtful for hit in hits)


@each_case(
    ("asked", "name"),
    [
        ("useContext", "useContext"),
        ("`read_lines`?", "read_lines"),
        ("EntireMetadataDir", "EntireMetadataDir"),
        ("what is useContext", ""),
        ("Lantern", ""),
        ("HTTP", ""),
        ("__init__", ""),
    ],
)
def test_a_question_may_be_a_name_in_code_only(asked: str, name: str) -> None:
    assert only_name(asked) == name
