"""A text that does not fit is cut around the sentence that answers, wherever that stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engram.search.passages.answering import answering
from engram.search.passages.wanted import MORE, Wanted, telling_part, without_bare_marker
from engram.search.question import coverage_of_words
from engram.transcripts.turns import Role
from tests.each_case import each_case
from tests.search.test_answering import parts_of, turn

TALK = "The harbour is quiet today. " * 8
REASON = "The mast leans because the wedge was left out."


def asked(question: str) -> Wanted:
    return Wanted.by(question, coverage_of_words(question))


def cut(question: str, text: str, size: int) -> str:
    return telling_part(text, asked(question), lambda part: len(part) <= size)


@pytest.mark.parametrize("text", [f"{REASON} {TALK}", f"{TALK}{REASON}", f"{TALK}{REASON} {TALK}"])
def test_the_sentence_that_answers_is_kept_wherever_it_stands(text: str) -> None:
    shown = cut("why does the mast lean", text, 120)

    assert REASON in shown
    assert len(shown) <= 120
    assert shown.endswith(MORE) is not text.endswith(REASON)


def test_a_text_that_fits_is_whole() -> None:
    assert cut("why does the mast lean", f"{TALK}{REASON}", 1_000) == f"{TALK}{REASON}"


def test_what_the_user_asked_gives_way_to_the_answer_and_keeps_its_place_after_it() -> None:
    before = f"the user: Why does the mast lean to the quay, and what is the mast made of?\nthe assistant: {REASON}"
    after = "the assistant: Should the mast be of pine or of cedar? Pine is cheap.\nthe user: the second one, cedar"

    assert cut("why does the mast lean", before, 70) == f"the assistant: {REASON}"
    assert "the user: the second one, cedar" in cut("is the mast of pine or of cedar", after, 110)


def test_of_two_messages_both_that_answer_are_shown() -> None:
    first, second = "The mast leans far over to the quay at night.", "The mast stands on an oak wedge."
    text = f"the assistant: {first} {TALK}\nthe assistant: {TALK}{second}"

    shown = cut("how does the mast stand on the quay", text, 150)

    assert shown.startswith("the assistant: The mast leans far over to the quay at night.")
    assert "the assistant: The mast stands on an oak wedge." in shown


def test_words_that_are_searched_for_are_kept() -> None:
    wanted = replace(asked("tr -d"), phrases=("tr -d",))

    assert "tr -d" in telling_part(f"{TALK}Use tr -d here. {TALK}", wanted, lambda part: len(part) <= 80)


@each_case(
    ("text", "left"),
    [("1. Oil it.\n2.", "1. Oil it."), ("Oil it.\n- ", "Oil it."), ("2.", "2."), ("It is 3.", "It is 3.")],
)
def test_no_text_ends_with_the_number_of_a_point_that_was_cut_off(text: str, left: str) -> None:
    assert without_bare_marker(text) == left


def test_a_denial_is_a_weaker_reason_than_a_cause_that_was_found() -> None:
    cause = "Because the keel gives the boat its weight, the rope is passed below it."
    denial = "The rope of the boat isn't passed below the keel of the other boat when the rope is wet."
    said = turn((Role.ASSISTANT, f"{cause} Ropes rot."), (Role.ASSISTANT, denial))

    shown = answering(said, parts_of(said, f"{cause} Ropes rot."), asked("why is the rope passed below the keel"))

    assert any(cause in part.text for part in shown)


def test_an_introduction_that_answers_is_followed_by_the_beginning_of_its_list() -> None:
    text = f"The review of the mast found two faults:\n\n**Confirmed:**\n1. The oak wedge is missing. {TALK}\n{TALK}"

    shown = cut("what did the review of the mast find", text, 70)

    assert shown.startswith("The review of the mast found two faults:")
    assert "1. The oak wedge is missing." in shown


def test_a_label_and_its_text_are_one_point() -> None:
    text = f"{TALK}\n- `yard.py`: a call of `step_mast` was added after the tide.\n{TALK}"

    assert "`yard.py`: a call" in cut("where is step_mast called", text, 70)


def test_what_was_done_is_shown_with_what_it_is_good_for() -> None:
    done = "A call of `wedge` was added before the launch."
    text = f"{TALK}\n{done} This ensures that the mast of the ship is upright once more on the quay.\n{TALK}"

    assert done in cut("where is the mast of the ship made upright once more", text, 100)
    other = f"{TALK}\n{done} The mast of the ship is upright once more on the quay because of it.\n{TALK}"
    assert done not in cut("where is the mast of the ship made upright once more", other, 100)
