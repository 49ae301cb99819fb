"""Which memories an answer has: one whose source answers too comes first, unless it does not hold."""

from __future__ import annotations

import dataclasses

from engram.enums import Status
from engram.search.answer import SOURCE_SHARE, raise_with_source
from engram.search.hits import Hit


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
