"""What is shown of a turn is what answers the question, not what repeats it."""

from __future__ import annotations

import pytest

from engram.search.hits import Part
from engram.search.passages.answering import Wanted, answering, worth_of
from engram.search.question import coverage_of_words
from engram.transcripts.turns import Role, TextBlock

PROMPT = "The harbour bell counts up when a boat comes in, but the counter does not go down when one leaves."
LOOK = "Let me check how the bell counts boats before picking a fix."
CAUSE = (
    "The counter asks the gate in a child process, so the gate of the parent never hears that a boat has left, and "
    "every boat was counted forever."
)
REPAIR = "The bell now counts only boats that lie at the quay: `quay --present`."


def turn(*said: tuple[Role, str]) -> list[TextBlock]:
    return [TextBlock(uuid=f"u{place}", role=role, text=text) for place, (role, text) in enumerate(said)]


def parts_of(said: list[TextBlock], *texts: str) -> list[Part]:
    blocks = [next(block for block in said if text in block.text) for text in texts]
    return [Part(block.uuid, block.role, text) for block, text in zip(blocks, texts, strict=True)]


def shown(question: str, said: list[TextBlock], *found: str) -> str:
    wanted = Wanted.by(question, coverage_of_words(question))
    return "\n".join(part.text for part in answering(said, parts_of(said, *found), wanted))


def test_a_repair_that_follows_the_cause_in_the_same_message_is_shown() -> None:
    said = turn((Role.USER, PROMPT), (Role.ASSISTANT, LOOK), (Role.ASSISTANT, f"{CAUSE} {REPAIR}"))

    text = shown("how did we fix the bell counter that never went down", said, PROMPT, LOOK, CAUSE)

    assert REPAIR in text


def test_what_the_assistant_says_about_its_next_step_is_left_out() -> None:
    said = turn(
        (Role.ASSISTANT, f"{LOOK} {CAUSE} Now let me run the tests."), (Role.ASSISTANT, "I'll commit the bell.")
    )

    text = shown(
        "how does the bell count boats", said, f"{LOOK} {CAUSE} Now let me run the tests.", "I'll commit the bell."
    )

    assert text == CAUSE


def test_a_reason_in_another_message_is_shown_beside_what_repeats_the_question() -> None:
    reason = "The bell rang twice because both pilots hold a key to the bell tower."
    said = turn(
        (Role.USER, "Why did the bell ring twice? It rang twice at noon."),
        (Role.ASSISTANT, "The bell rang twice at noon."),
        (Role.ASSISTANT, f"I asked the pilots. {reason}"),
    )

    assert reason in shown("why did the bell ring twice", said, "The bell rang twice at noon.")
    assert reason not in shown("did the bell ring twice", said, "The bell rang twice at noon.")


def test_a_pasted_log_does_not_push_the_answer_off_the_screen() -> None:
    log = "\n".join(f"bell_tower_test.go:{line}: counter of boats at the quay is {line}" for line in range(40))
    said = turn((Role.USER, log), (Role.ASSISTANT, CAUSE))

    text = shown("why does the bell counter of boats grow", said, log, CAUSE)

    assert text.endswith(CAUSE)
    assert len(text) < len(CAUSE) + 200


def test_a_sentence_that_was_judged_wrong_is_not_added() -> None:
    said = turn((Role.ASSISTANT, f"{CAUSE} {REPAIR}"))
    question = "how did we fix the bell counter that never went down"
    wanted = Wanted.by(question, coverage_of_words(question), {REPAIR.casefold()})

    text = "\n".join(part.text for part in answering(said, parts_of(said, CAUSE), wanted))

    assert CAUSE in text
    assert REPAIR not in text


@pytest.mark.parametrize(
    ("question", "text", "is_answer"),
    [
        ("why did the bell ring twice", "The bell rang twice because both pilots have keys.", True),
        ("why did the bell ring twice", "The bell rang twice at noon.", False),
        ("why did the bell ring twice", "The bell printed `it was never rung`.", False),
        ("what was wrong with the bell", "The problem was that the bell had no clapper.", True),
        ("how did we fix the bell", "Fixed the bell by a new clapper.", True),
        ("how did we fix the bell", "The bell is broken.", False),
        ("wie wurde die Glocke repariert", "Die Glocke wurde ersetzt.", True),
        ("when did the bell ring", "Fixed the bell, because it rang.", False),
    ],
)
def test_an_answer_is_worth_something_if_it_has_the_form_that_is_asked_for(
    question: str, text: str, is_answer: bool
) -> None:
    wanted = Wanted.by(question, coverage_of_words(question))

    assert (worth_of([Part("u", Role.ASSISTANT, text)], wanted) > 0) is is_answer
    assert worth_of([Part("u", Role.USER, text)], wanted) == 0
