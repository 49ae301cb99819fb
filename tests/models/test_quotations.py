"""A quotation's id holds whatever is read again, and finds the passage, its turn and what was said after it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.storing import write_turn
from engram.enums import Actor, Judgement
from engram.errors import BadRequest, NotFound
from engram.memories.correct import judge_quotation, take_back_quotation_judgement
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.projects.projects import ensure_project
from engram.models.sessions.passage_rows import (
    barred_quotations,
    drop_quotation_records,
    find_quotation,
    is_quotation_id,
    judged_quotations,
    passage_places,
    quotation_id_of,
    quotation_prefix,
    require_quotation,
    said_after,
)
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session
from engram.models.sessions.turn_changes import delete_turn
from engram.redaction import redact
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn

LONG = "\n\n".join(
    f"Paragraph {number} tells of the pump {number}. " + "It is green and loud. " * 30 for number in range(6)
)


def tell(store: Store, key: str, *said: TextBlock, opening: Opening = Opening.PROMPT, at_ms: int = 1_000) -> int:
    """Store a turn in which these texts were said."""
    with store.transaction() as tx:
        project = ensure_project(tx, "id-app", "app")
        session = ensure_session(
            tx, "s1", agent="claude-code", project_id=project.id, is_global=False, cwd="/app", at_ms=at_ms
        )
        transcript = ensure_transcript(tx, Path("/t/app.jsonl"), session.id)
        uuids = list(dict.fromkeys(block.uuid for block in said if block.uuid))
        entries = tuple(EntryRef(uuid, at_ms + number, 1, number + 1) for number, uuid in enumerate(uuids))
        turn = Turn(key, "s1", opening, said, entries=entries, started_at_ms=at_ms, cwd="/app")
        return write_turn(tx, turn, session, transcript)


def ids_of(store: Store) -> dict[str, str]:
    """Id of every quotation → its text."""
    rows = [row.id for row in store.fetch(tables.Passage.select(tables.Passage.id))]
    places = passage_places(store, rows)
    return {place.quotation_id: find(store, place.quotation_id) for place in places.values()}


def find(store: Store, name: str) -> str:
    found = find_quotation(store, name)
    assert found is not None
    return found.text


def blocks(key: str) -> tuple[TextBlock, ...]:
    return (
        TextBlock(f"{key}-u", Role.USER, f"How loud is the pump of {key}?", at_ms=1_000),
        # Several texts of one entry, as an agent writes them between tool calls, one of them in many passages.
        TextBlock(f"{key}-a", Role.ASSISTANT, LONG, at_ms=1_001),
        TextBlock(f"{key}-a", Role.ASSISTANT, f"The pump of {key} is loud.", at_ms=1_001),
    )


def test_ids_name_passages_and_survive_another_reading(store: Store) -> None:
    tell(store, "t1", *blocks("t1"))
    turn_id = tell(store, "t2", *blocks("t2"))
    before = ids_of(store)
    assert len(before) > 6
    assert len(set(before)) == len(before)
    assert all(map(is_quotation_id, before))

    # The transcript is read again, in another order: all row numbers change.
    with store.transaction() as tx:
        for row_id in (turn_id, 1):
            tx.run(tables.Passage.delete().where(tables.Passage.turn_id == row_id))
            tx.run(tables.Entry.delete().where(tables.Entry.turn_id == row_id))
            tx.run(tables.TextBlock.delete().where(tables.TextBlock.turn == row_id))
            tx.run(tables.Turn.delete().where(tables.Turn.id == row_id))
    tell(store, "t2", *blocks("t2"))
    tell(store, "t1", *blocks("t1"))

    assert ids_of(store) == before
    assert "The pump of t2 is loud." in before.values()


def test_a_queued_prompt_is_found_by_its_turn(store: Store) -> None:
    tell(store, "queued-1", TextBlock("", Role.USER, "The pump runs at night."), opening=Opening.QUEUED)
    name = quotation_id_of("queued-1", 0)

    quotation = require_quotation(store, name)

    assert (quotation.text, quotation.source, quotation.role) == ("The pump runs at night.", "queued-1", Role.USER)


@pytest.mark.parametrize(
    "name", ["", "q_", "ep_0123456789ab", "q_0123456789ab", "q_0123456789abzz", "q_0123456789ab0", "Q_0123456789AB0"]
)
def test_nothing_else_is_a_quotation(store: Store, name: str) -> None:
    tell(store, "t1", *blocks("t1"))
    assert find_quotation(store, name) is None
    with pytest.raises(NotFound):
        require_quotation(store, name)


def test_a_text_that_is_split_otherwise_is_found_by_the_passage_around_its_place(store: Store) -> None:
    tell(store, "t1", *blocks("t1"))
    assert "pump of t1" in find(store, quotation_id_of("t1-u", 7))
    assert find_quotation(store, quotation_id_of("t1-u", 9_999)) is None


def test_a_quotation_knows_its_question_and_what_was_said_after_it(store: Store) -> None:
    tell(store, "t1", *blocks("t1"))
    later = tuple(
        dataclasses.replace(block, at_ms=5_000 + number)
        for number, block in enumerate(
            (TextBlock("t2-u", Role.USER, "No, it is quiet."), TextBlock("t2-a", Role.ASSISTANT, "You are right."))
        )
    )
    tell(store, "t2", *later, at_ms=5_000)
    answer = require_quotation(store, quotation_id_of("t1-a", len(LONG) + 1))

    assert answer.asked == "How loud is the pump of t1?"
    assert require_quotation(store, quotation_id_of("t1-u", 0)).asked == ""
    assert [(one.role, one.text) for one in said_after(store, answer.row_id, 10)] == [
        ("user", "No, it is quiet."),
        ("assistant", "You are right."),
    ]


def test_judgements_last_and_can_be_withdrawn_and_an_agent_does_not_overrule_a_person(store: Store) -> None:
    tell(store, "t1", *blocks("t1"))
    name = quotation_id_of("t1-a", len(LONG) + 1)

    judge_quotation(store, name, Judgement.WRONG, "it is quiet", redact, actor=Actor.USER)

    assert judged_quotations(store) == {name: Judgement.WRONG}
    assert barred_quotations(store) == ({require_quotation(store, name).row_id}, {"the pump of t1 is loud."})
    with pytest.raises(BadRequest, match="the user judged"):
        judge_quotation(store, name, Judgement.HELPFUL, "no", redact, actor=Actor.AGENT)
    with pytest.raises(BadRequest, match="give a reason"):
        judge_quotation(store, name, Judgement.OUTDATED, " ", redact, actor=Actor.USER)
    assert take_back_quotation_judgement(store, name, actor=Actor.USER) == "the judgement as wrong"
    assert barred_quotations(store) == (set(), set())
    with pytest.raises(BadRequest, match="has not been judged"):
        take_back_quotation_judgement(store, name, actor=Actor.USER)


def test_an_agent_hides_what_the_assistant_said_but_not_what_the_user_said(store: Store) -> None:
    tell(store, "t1", *blocks("t1"))
    asked, answered = quotation_id_of("t1-u", 0), quotation_id_of("t1-a", 0)

    for judgement in (Judgement.WRONG, Judgement.OUTDATED):
        with pytest.raises(BadRequest, match=f"what the user said.*`engram feedback {asked} {judgement}`"):
            judge_quotation(store, asked, judgement, "no", redact, actor=Actor.AGENT)
    judge_quotation(store, asked, Judgement.HELPFUL, "yes", redact, actor=Actor.AGENT)
    judge_quotation(store, answered, Judgement.WRONG, "no", redact, actor=Actor.AGENT)

    assert judged_quotations(store) == {asked: Judgement.HELPFUL, answered: Judgement.WRONG}


@pytest.mark.parametrize("way", ["entry", "turn"])
def test_nothing_is_recorded_of_what_is_gone(store: Store, way: str) -> None:
    turn_id = tell(store, "t1", *blocks("t1"))
    tell(store, "t2", *blocks("t2"))
    names = [quotation_id_of(f"{key}-u", 0) for key in ("t1", "t2")]
    for name in names:
        judge_quotation(store, name, Judgement.WRONG, "no", redact, actor=Actor.USER)

    with store.transaction() as tx:
        if way == "turn":
            delete_turn(tx, turn_id)
        else:
            drop_quotation_records(tx, ["t1-u"])

    assert judged_quotations(store) == {names[1]: Judgement.WRONG}
    assert names[1].startswith(quotation_prefix("t2-u"))
