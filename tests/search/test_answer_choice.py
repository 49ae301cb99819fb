"""Which memories an answer has: one whose source answers too comes first, unless it does not hold."""

from __future__ import annotations

import dataclasses

import pytest

from engram.enums import Kind, Status
from engram.models.memories.memory_records import Memory
from engram.search.answer import SOURCE_SHARE, _cut, near_as_passages, raise_with_source
from engram.search.hits import Hit
from engram.search.question import Coverage
from engram.text.words import terms_of


def hit(name: str, score: float, turn_id: int | None) -> Hit:
    return Hit(id=name, kind="fact", text=name, score=score, parts={}, turn_id=turn_id)


def test_a_memory_rises_with_the_best_passage_of_its_turn_unless_it_does_not_hold() -> None:
    memories = [
        hit("first", 0.8, 1),
        hit("source answers", 0.7, 2),
        dataclasses.replace(hit("unconfirmed", 0.65, 2), status=Status.PROVISIONAL),
        dataclasses.replace(hit("superseded", 0.6, 2), status=Status.SUPERSEDED),
        dataclasses.replace(hit("elsewhere", 0.5, 2), branch="feat/x"),
        hit("saved", 0.4, None),
    ]

    raised = raise_with_source(memories, [hit("note", 2.0, None), hit("best", 1.0, 2), hit("weaker", 0.5, 2)])

    assert [memory.id for memory in raised] == [
        "source answers",
        "unconfirmed",
        "first",
        "superseded",
        "elsewhere",
        "saved",
    ]
    assert raised[0].score == 0.7 + SOURCE_SHARE
    assert raised[0].parts == {"source": SOURCE_SHARE}
    assert raise_with_source(memories, []) == memories


def test_a_memory_by_rules_must_be_nearly_as_close_to_the_question_as_the_best_passage() -> None:
    def remembered(text: str, extractor: str) -> Hit:
        memory = Memory("ep_0123456789ab", Kind.FACT, text, text, extractor=extractor)
        return dataclasses.replace(hit(text, 0.5, None), cosine=0.1, memory=memory)

    terms = terms_of("where does the walrus proxy drop headers")
    wanted = Coverage(terms, dict.fromkeys(terms, 1), 2)
    passage = dataclasses.replace(hit("The walrus proxy drops headers at 8 kB.", 1.0, 2), cosine=0.5)
    far, near = "The plan for the lighthouse was approved.", "The walrus proxy must never drop a header."
    memories = [
        remembered(far, "local-3"),
        remembered(near, "local-3"),
        remembered(far, "a-model"),
    ]

    kept = list(near_as_passages(memories, [passage], wanted))

    assert [(memory.text, memory.memory and memory.memory.extractor) for memory in kept] == [
        (near, "local-3"),
        (far, "a-model"),
    ]
    assert list(near_as_passages(memories, [], wanted)) == memories


@pytest.mark.parametrize(
    ("text", "words", "cut"),
    [
        ("the user: why\nthe assistant: because it rains", 5, "the user: why\nthe …"),
        ("one two\nthree", 3, "one two\nthree"),
        ("one  two\n\nthree four", 3, "one  two …"),
        ("", 3, ""),
    ],
)
def test_a_text_that_is_cut_keeps_its_lines(text: str, words: int, cut: str) -> None:
    assert _cut(text, words) == cut
