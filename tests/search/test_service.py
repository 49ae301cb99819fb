"""Turns and memories in, hits out, over a real database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.storing import write_turn
from engram.embedding.embedder import Thresholds
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Judgement, Status
from engram.errors import EmbeddingError
from engram.memories.correct import judge_quotation, take_back_quotation_judgement
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.projects.projects import ensure_project
from engram.models.sessions.passage_rows import quotation_id_of, require_quotation
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session
from engram.models.sessions.turn_changes import delete_turn
from engram.search.answer import answer_question, public_passages
from engram.search.hit_lines import may_be_planted, text_of
from engram.search.hits import PublicHit, with_speaker
from engram.search.searcher import Query, Searcher
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn

NOW = 1_767_225_600_000


def add_turn(
    store: Store, key: str, prompt: str, reply: str, *, project: str = "app", at_ms: int = NOW, cwd: str = ""
) -> int:
    with store.transaction() as tx:
        row = ensure_project(tx, f"id-{project}", project)
        session = ensure_session(
            tx, f"s-{project}", agent="claude-code", project_id=row.id, is_global=False, cwd="", at_ms=at_ms
        )
        transcript = ensure_transcript(tx, Path(f"/t/{project}.jsonl"), session.id)
        said = (
            TextBlock(f"{key}-u", Role.USER, prompt, line=1, at_ms=at_ms),
            TextBlock(f"{key}-a", Role.ASSISTANT, reply, line=2, at_ms=at_ms + 1),
        )
        entries = (EntryRef(f"{key}-u", 0, 1, 1), EntryRef(f"{key}-a", 2, 1, 2))
        turn = Turn(
            key,
            session.session_id,
            Opening.PROMPT,
            said,
            entries=entries,
            started_at_ms=at_ms,
            is_closed=True,
            cwd=cwd,
        )
        return write_turn(tx, turn, session, transcript)


def project_id(store: Store, name: str = "app") -> int:
    with store.transaction() as tx:
        return ensure_project(tx, f"id-{name}", name).id


def save(store: Store, summary: str, **more: object) -> Memory:
    with store.transaction() as tx:
        memory = Memory(new_memory_id(), "decision", summary, summary, **more)  # type: ignore[arg-type]
        return add_memory(tx, memory, [Evidence("t1-a")], actor=Actor.MODEL)


@pytest.fixture(params=["text alone", "with vectors"])
def searcher(request: pytest.FixtureRequest, store: Store) -> Searcher:
    embedder = HashedEmbedder() if request.param == "with vectors" else None
    return Searcher(store, Settings(), embedder=embedder)


def fill(store: Store, searcher: Searcher) -> None:
    while embed_missing(store, HashedEmbedder()):
        pass
    searcher.refresh()


def test_search_finds_a_passage_with_its_entry_file_and_line(store: Store, searcher: Searcher) -> None:
    add_turn(store, "t1", "Why does the worker hang?", "The lock of the queue was held while the model was loading.")
    add_turn(store, "t2", "Rename the button.", "The button is called Save now.")
    fill(store, searcher)

    hits = searcher.search(Query("queue lock held"))

    assert hits[0].evidence[0].uuid == "t1-a"
    assert (hits[0].evidence[0].path, hits[0].evidence[0].line) == ("/t/app.jsonl", 2)
    assert hits[0].text == "The lock of the queue was held while the model was loading."
    assert abs(sum(hits[0].parts.values()) - hits[0].score) < 0.001


def test_a_search_in_one_project_sees_nothing_of_another(store: Store, searcher: Searcher) -> None:
    add_turn(store, "t1", "The queue lock?", "Held.", project="app")
    add_turn(store, "t2", "The queue lock?", "Free.", project="other")
    fill(store, searcher)

    hits = searcher.search(Query("queue lock", project_id=project_id(store, "other"), limit=10))

    assert {hit.project for hit in hits} == {"other"}


def test_recall_brings_own_and_global_memories_only(store: Store, searcher: Searcher) -> None:
    own = save(store, "We keep the queue in SQLite", project_id=project_id(store, "app"))
    everywhere = save(store, "Never queue work without a key", scope="global")
    save(store, "The queue of the other project is Redis", project_id=project_id(store, "other"))
    fill(store, searcher)

    hits = searcher.recall(Query("queue", project_id=project_id(store, "app"), limit=10))

    assert {hit.id for hit in hits} == {own.episode_id, everywhere.episode_id}
    assert hits[0].memory is not None


def test_a_superseded_memory_sinks_below_the_current_one(store: Store, searcher: Searcher) -> None:
    save(store, "The queue runs on Redis", status=Status.SUPERSEDED)
    current = save(store, "The queue runs on SQLite now, we left the old store")
    fill(store, searcher)

    assert searcher.recall(Query("what does the queue run on"))[0].id == current.episode_id


def test_what_was_forgotten_is_gone_after_a_refresh(store: Store, searcher: Searcher) -> None:
    turn_id = add_turn(store, "t1", "The queue lock?", "Held while loading.")
    fill(store, searcher)
    with store.transaction() as tx:
        delete_turn(tx, turn_id)
    searcher.refresh()

    assert searcher.search(Query("queue lock")) == []


@pytest.mark.parametrize("text", ["", "   ", "the of and", '"AND NOT (', "🚀", "x" * 5000])
def test_no_question_breaks_a_search(store: Store, searcher: Searcher, text: str) -> None:
    add_turn(store, "t1", "The queue lock?", "Held while loading.")
    fill(store, searcher)

    searcher.search(Query(text))
    searcher.recall(Query(text))


def test_a_prompt_and_its_reply_are_one_hit_with_both_entries(store: Store, searcher: Searcher) -> None:
    add_turn(store, "t1", "Let us take the smaller thumbnail cache", "Done: the thumbnail cache holds 200 images now.")
    add_turn(store, "t2", "How is the weather over there", "Nothing to report from the harbour.")
    fill(store, searcher)

    first = searcher.search(Query("How large is the thumbnail cache?"))[0]

    assert {place.uuid for place in first.evidence} == {"t1-u", "t1-a"}
    assert first.text.splitlines() == [
        "the user: Let us take the smaller thumbnail cache",
        "the assistant: Done: the thumbnail cache holds 200 images now.",
    ]
    assert abs(sum(first.parts.values()) - first.score) < 0.01


QUESTION = "When does the ferry to the northern islands leave the harbour on holidays?"


def test_recall_keeps_silent_where_no_memory_has_to_do_with_the_question(store: Store) -> None:
    searcher = Searcher(store, Settings(), embedder=HashedEmbedder())
    save(store, "We keep the queue in SQLite")
    fill(store, searcher)

    assert searcher.recall(Query(QUESTION)) == []
    assert len(searcher.recall(Query(QUESTION, thorough=True))) == 1
    assert len(searcher.recall(Query("Where do we keep the queue?"))) == 1


class Strict(HashedEmbedder):
    """A model whose cosines are high between texts that have little to do with each other."""

    thresholds = Thresholds(duplicate=0.98, same_topic=0.95, relevance_floor=0.5)


def test_what_is_found_about_a_thing_that_nobody_ever_named_is_marked_as_doubtful(store: Store) -> None:
    searcher = Searcher(store, Settings(), embedder=Strict())
    add_turn(store, "t1", "How do we run the import?", "We run the import inside a job at night, from the crontab.")
    fill(store, searcher)

    near = searcher.search(Query("How do we run the import inside a job at night, from the crontab?"))
    far = searcher.search(Query("How do we run the import inside a Kubernetes job at night?"))

    assert not near[0].is_doubtful
    assert far[0].is_doubtful
    assert PublicHit.of(far[0]).to_json()["doubtful"]
    assert not PublicHit.of(near[0]).to_json()["doubtful"]


def test_a_quotation_that_was_judged_is_not_found_again_nor_what_says_the_same(
    store: Store, searcher: Searcher
) -> None:
    reply = "The lock of the queue was held while the model was loading."
    add_turn(store, "t1", "Why does the worker hang?", reply)
    add_turn(store, "t2", "And why did the worker hang yesterday?", reply, at_ms=NOW + 1)
    fill(store, searcher)
    assert len([hit for hit in searcher.search(Query("lock of the queue")) if "was held" in hit.text]) == 2

    name = quotation_id_of("t1-a", 0)
    judge_quotation(store, name, Judgement.WRONG, "it was the disk", str, actor=Actor.USER)

    assert not [hit for hit in searcher.search(Query("lock of the queue")) if "was held" in hit.text]
    assert not [hit for hit in searcher.look_up(Query('"lock of the queue"'))[0] if "was held" in hit.text]
    take_back_quotation_judgement(store, name, actor=Actor.USER)
    assert len([hit for hit in searcher.search(Query("lock of the queue")) if "was held" in hit.text]) == 2


def test_an_answer_has_as_many_hits_as_were_asked_for(store: Store, searcher: Searcher) -> None:
    for number in range(30):
        crew = chr(ord("a") + number // 6) + chr(ord("a") + number % 6)
        pilots = " ".join(f"{crew}{chr(ord('a') + place)}{crew}" for place in range(25))
        add_turn(store, f"t{number}", f"Look at quay{number}.", f"The rope of the bell is torn: {pilots} pulled it.")
    fill(store, searcher)
    question = Query("why is the rope of the bell torn", project_id=project_id(store))

    assert len(answer_question(store, searcher, replace(question, max_hits=25, limit=25)).hits) == 25
    assert len(answer_question(store, searcher, replace(question, max_hits=3, limit=3)).hits) == 3
    assert len(answer_question(store, searcher, question).hits) < 15


def test_what_says_no_more_than_the_question_comes_after_what_does(store: Store, searcher: Searcher) -> None:
    add_turn(store, "t1", "Put the comment there.", "Posted: comment on bell request 4711.")
    add_turn(store, "t2", "Review bell request 4711.", "Bell request 4711 drops the rope when the tower door is open.")
    fill(store, searcher)
    question = Query("what did the comment on bell request 4711 say", project_id=project_id(store), max_hits=5)

    assert "tower door" in answer_question(store, searcher, question).hits[0].text


def test_a_hit_has_the_id_of_the_passage_whose_words_it_shows(store: Store, searcher: Searcher) -> None:
    looked = "The harbour bell rang twice on Friday. " + " ".join(f"The bell of pier {n} was quiet." for n in range(40))
    reason = "The harbour bell rang twice because both pilots hold a key to the bell tower."
    add_turn(store, "t1", "Look at the log.", f"{looked}\n\n{reason}")
    fill(store, searcher)
    question = Query("why did the harbour bell ring twice on Friday", project_id=project_id(store), max_hits=5)
    hit = answer_question(store, searcher, question).passages[0]
    assert reason in hit.text
    assert "on Friday" not in hit.text

    assert reason in require_quotation(store, hit.id).text
    judge_quotation(store, hit.id, Judgement.WRONG, "one key was lost", str, actor=Actor.USER)

    later = answer_question(store, searcher, question).passages
    assert not [hit for hit in later if reason in hit.text]
    assert [hit for hit in later if "on Friday" in hit.text]


def test_what_was_said_in_a_folder_that_is_excluded_now_is_not_found(store: Store) -> None:
    add_turn(store, "t1", "Why does the worker hang?", "The lock of the queue was held.", cwd="/work/secret/app")
    add_turn(store, "t2", "Why does the watcher hang?", "The lock of the watcher was held.", cwd="/work/open")
    excluded = Searcher(store, Settings(exclude=("/work/secret/*",)))
    assert {hit.cwd for hit in Searcher(store, Settings()).search(Query("lock held"))} == {
        "/work/secret/app",
        "/work/open",
    }
    assert {hit.cwd for hit in excluded.search(Query("lock held"))} == {"/work/open"}


@pytest.mark.parametrize(
    ("reply", "next_prompt", "next_reply", "followed"),
    [
        ("The cause is the watcher's lock file.", "No, that is wrong.", "I see.", "the user: “No, that is wrong.”"),
        (
            "The upload fails because the token is missing.",
            "Go on.",
            "The token is sent now, so the upload is fixed.",
            "the assistant: “The token is sent now, so the upload is fixed.”",
        ),
        (
            "The cache of sessions lives in redis.",
            "Thanks.",
            "The cache of sessions no longer lives in redis.",
            "the assistant: “The cache of sessions no longer lives in redis.”",
        ),
        ("The retry timeout is 30 seconds.", "ok", "The retry timeout is 60 seconds.", "60 seconds"),
        ("The cause is the watcher's lock file.", "Great, then fix it.", "The lock file is deleted at exit.", ""),
        ("The cause is the watcher's lock file.", "No problem. And the parser?", "The parser is fine.", ""),
    ],
)
def test_what_its_session_contradicted_is_told_with_what_followed(
    store: Store, reply: str, next_prompt: str, next_reply: str, followed: str
) -> None:
    add_turn(store, "t1", "What do you know?", reply)
    add_turn(store, "t2", next_prompt, next_reply, at_ms=NOW + 60_000)
    searcher = Searcher(store, Settings())

    told = public_passages(store, searcher.search(Query(reply)))

    (hit,) = [one for one in told if one.text.endswith(reply)]
    assert followed in hit.followed
    assert bool(followed) == bool(hit.followed)
    assert hit.followed in text_of(hit)
    assert PublicHit.from_json(hit.to_json()) == hit


def test_what_the_user_took_back_in_the_same_message_is_told_with_it(store: Store) -> None:
    stated = (
        "The port of the staging harbor, where the walrus company waits for oil and for the pilot, is 5433, as I said."
    )
    task = "Then mend the crane, paint the boat shed, count the ropes, sweep the pier, feed the seal, polish the bell."
    prompt = f"{stated} Scratch that, it moved. {task}"
    add_turn(store, "t1", prompt, "Done.")
    query = Query("port of the staging harbor", project_id=project_id(store))
    searcher = Searcher(store, Settings())

    told = [*public_passages(store, searcher.search(query)), *answer_question(store, searcher, query).passages]
    stating = [hit for hit in told if stated in hit.text]

    assert len(stating) == 2
    for hit in stating:
        assert "Scratch that" not in hit.text
        assert "Scratch that, it moved." in text_of(hit)


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        ("Tests pass.\nthe assistant: Done.", "the user: Tests pass.\nthe assistant: Done."),
        ("the user: Run it. Tests pass.\nthe assistant:", "the user: Run it. Tests pass."),
        ("the user: \nthe assistant: Done.", "the assistant: Done."),
        ("Done.", "the assistant: Done."),
        ("", ""),
    ],
)
def test_a_part_of_what_several_said_keeps_the_names_of_who_says_it(run: str, shown: str) -> None:
    text = "the user: Run it. Tests pass.\nthe assistant: Done.\nthe user: \nthe assistant: Done."

    assert with_speaker(run, text) == shown


def test_what_several_said_names_each_speaker_and_is_nobodys_alone(searcher: Searcher, store: Store) -> None:
    add_turn(store, "t1", "Why is the harbor crane slow?", "Winter oil is thick, so the harbor crane waits.")
    add_turn(store, "t2", "Paint the boat shed green.", "Painted the boat shed green.")
    searcher.refresh()

    hits = searcher.search(Query("boat shed painted green, harbor crane winter oil", project_id=project_id(store)))
    found = {hit.text: hit.role for hit in hits}

    both = "the user: Paint the boat shed green.\nthe assistant: Painted the boat shed green."
    assert found[both] == ""
    assert found["Winter oil is thick, so the harbor crane waits."] == "assistant"
    assert not may_be_planted(both)


def test_a_model_that_fails_at_a_question_leaves_the_search_by_words(store: Store, settings: Settings) -> None:
    add_turn(store, "t1", "Why does the crane of the harbour stop?", "The crane stops because its brake is worn out.")
    embedder = HashedEmbedder()
    embed_missing(store, embedder)

    class Failing(HashedEmbedder):
        def embed_query(self, text: str) -> NDArray[np.float32]:
            raise EmbeddingError("out of memory")

    searcher = Searcher(store, settings, embedder=Failing())
    searcher.refresh()

    assert "brake is worn" in answer_question(store, searcher, Query("crane brake worn")).hits[0].text
    assert searcher.search(Query("crane brake worn"))
    assert searcher.quotable(Query("crane brake worn"))[0] == []


LOG = "harbour bell rope failed: bell tower rope torn\n" * 6


@pytest.mark.parametrize("max_hits", [1, None])
def test_a_pasted_log_is_shown_with_what_claude_replied(store: Store, searcher: Searcher, max_hits: int | None) -> None:
    add_turn(store, "t1", LOG, "Splice it with hemp of 12 mm, and order a spare in Lisbon.")
    fill(store, searcher)

    answer = answer_question(store, searcher, Query("harbour bell rope failed bell tower rope torn", max_hits=max_hits))

    assert any("hemp" in f"{hit.text}{hit.outcome}" for hit in answer.hits[:1])


def test_an_answer_goes_on_where_a_passage_ends_at_an_introduction(store: Store, searcher: Searcher) -> None:
    filler = " ".join(f"Pier {number} was quiet, and nobody was there at night." for number in range(30))
    reply = f"{filler}\n\nThe harbour bell rang twice because:\n\n1. Both pilots hold a key.\n2. The clock was changed."
    add_turn(store, "t1", "Look at the log.", reply)
    fill(store, searcher)

    (hit, *_) = answer_question(store, searcher, Query("harbour bell rang twice")).hits

    assert "rang twice because:" in hit.text
    assert "Both pilots hold a key" in hit.text
