"""What takes back or supersedes a passage is found: later about the same, however written, and in the same message."""

from __future__ import annotations

import pytest

from engram.models.sessions.passage_rows import LaterText
from engram.search.passages.followed import end_of_turn, find_later, taken_back_in
from engram.search.question import Coverage
from engram.transcripts.turns import Opening, Role, TextBlock, Turn

EARLIER = "The readFile parser fails for three copper headers."


@pytest.mark.parametrize(
    "later",
    [
        "The parser of readFile is fixed, copper headers pass.",
        "PARSER and read file: fixed for COPPER headers!",
        "Some other matter first. Now the parser's read_file works now for each copper header.",
        "We fixed `readFile`: its parsers take the header of copper.",
    ],
)
def test_words_in_any_form_are_about_the_same(later: str) -> None:
    other = LaterText(Role.ASSISTANT, "The walrus sleeps.")
    found = find_later(EARLIER, Role.ASSISTANT, [other, LaterText(Role.ASSISTANT, later)])

    assert found is not None
    assert found.text in later


@pytest.mark.parametrize(
    "later", ["The walrus is fixed.", "A header was fixed.", "The parser for three copper headers fails still.", ""]
)
def test_what_is_about_something_else_or_says_the_same_ends_nothing(later: str) -> None:
    assert find_later(EARLIER, Role.ASSISTANT, [LaterText(Role.ASSISTANT, later)]) is None


def test_a_sentence_that_is_shown_already_ends_nothing() -> None:
    later = "The parser of readFile is fixed, copper headers pass."

    assert find_later(f"{EARLIER}\n{later}", Role.ASSISTANT, [LaterText(Role.ASSISTANT, later)]) is None


def test_the_rest_of_a_message_that_is_shown_in_part_does_not_follow_it() -> None:
    rest = "The parser of readFile is fixed, copper headers pass."
    own = "We looked at the three parsers of the harbour first."

    assert find_later(EARLIER, Role.ASSISTANT, [LaterText(Role.ASSISTANT, rest)]) is not None
    assert find_later(f"{EARLIER}\n{own}", Role.ASSISTANT, [LaterText(Role.ASSISTANT, f"{own} {rest}")]) is None


def test_what_only_introduces_a_list_ends_nothing() -> None:
    later = LaterText(Role.ASSISTANT, "Fixed the readFile parser of copper headers:")

    assert find_later(EARLIER, Role.ASSISTANT, [later]) is None


def test_a_line_of_code_ends_nothing() -> None:
    code = "# The parser of readFile is fixed, copper headers pass."
    for later in (f"Here:\n```py\n{code}\nread()\n```\nRun it.", f"Here:\n~~~\n{code}"):
        assert find_later(EARLIER, Role.ASSISTANT, [LaterText(Role.ASSISTANT, later)]) is None
    told = "```py\nread()\n```\nThe parser of readFile is fixed, copper headers pass."
    assert find_later(EARLIER, Role.ASSISTANT, [LaterText(Role.ASSISTANT, told)]) is not None


def test_what_is_left_of_a_list_never_ends_with_a_bare_number() -> None:
    points = "No, wrong order:\n1. Light the lantern.\n2. " + "Then wait for the tide to turn at the mole " * 4
    found = find_later("It is done.", Role.ASSISTANT, [LaterText(Role.USER, points)])

    assert found is not None
    assert found.text == "No, wrong order: 1. Light the lantern."


@pytest.mark.parametrize(
    ("shown", "rest"),
    [
        ("Always use tabs in the templates.", "Scratch that, the linter wants spaces."),
        ("The staging port is 5433.", "Wait, no, that was the old one."),
        ("The staging port is 5433.", "Hm.\nNo wait.\nForget that."),
        ("Never rebase a shared branch.", "Is that a good rule?"),
        ("Never rebase a shared branch.", "I strongly disagree with it."),
        ("We deploy on Fridays.", "The build is slow, can you look? Also forget what I said about the Fridays."),
        ("Die Preise sind netto gespeichert.", "Ach nein, vergiss das."),
        ("Le port est 5433.", "En fait non, oublie ça."),
    ],
)
def test_what_the_user_takes_back_in_the_same_message_is_told_with_it(shown: str, rest: str) -> None:
    told = taken_back_in(shown, f"Please fix the importer.\n- **{shown}**\n{rest}")

    assert told
    assert " ".join(rest.split()).endswith(told)
    assert not taken_back_in(f"{shown} {rest}", f"{shown}\n{rest}")


@pytest.mark.parametrize(
    ("shown", "rest"),
    [
        ("The staging port is 5433.", "Forget what I said about the squashing."),
        ("The staging port is 5433.", "The build server has two cores.\nScratch that, it has four."),
        ("The staging port is 5433.", "Their mail says:\n\n> Scratch that, it is 5440."),
        ("The port of the proxy is 81.", "Then mend the parser, please."),
    ],
)
def test_what_takes_back_something_else_or_is_not_the_users_ends_nothing(shown: str, rest: str) -> None:
    assert taken_back_in(shown, f"{shown}\n{rest}") == ""


@pytest.mark.parametrize("later", ["Vergiss das, das war Quatsch.", "Scratch that.", "oops, wrong window"])
def test_the_next_prompt_takes_back_what_the_user_said_in_any_language(later: str) -> None:
    prompts = [LaterText(Role.USER, later), LaterText(Role.USER, "Go on with the parser.")]

    found = find_later("The staging port is 5433.", Role.USER, prompts)

    assert found is not None
    assert found.text == later
    # Without a name, a later prompt is about what was said in between.
    assert find_later("The staging port is 5433.", Role.USER, prompts[::-1]) is None


def test_a_later_prompt_takes_back_what_it_names() -> None:
    prompts = [LaterText(Role.USER, "Go on."), LaterText(Role.USER, "Forget what I said about the staging port.")]

    found = find_later("The staging port is 5433.", Role.USER, prompts)

    assert found is not None
    assert found.text == prompts[1].text


@pytest.mark.parametrize(
    "later",
    [
        "Scratch that staging thing.",
        "Forget it, we don't use the staging port any more.",
        "I changed my mind, use the dev port instead of staging.",
        "Take that back, staging is not used here.",
    ],
)
def test_a_later_prompt_may_name_what_it_takes_back_in_any_place(later: str) -> None:
    prompts = [LaterText(Role.USER, "Mend the winch."), LaterText(Role.USER, later)]

    found = find_later("The staging port is 5433.", Role.USER, prompts)

    assert found is not None
    assert found.text == later
    assert find_later("Lanterns are lit at dusk.", Role.USER, prompts) is None


@pytest.mark.parametrize(
    "later", ["Sorry, I meant 5434.", "wait, no, 5434", "correction: 5434", "Actually no, use 5434."]
)
def test_the_next_prompt_may_correct_what_the_user_said(later: str) -> None:
    assert find_later("The staging port is 5433.", Role.USER, [LaterText(Role.USER, later)]) is not None
    assert find_later("The staging port is 5433.", Role.USER, [LaterText(Role.USER, "No, go on.")]) is None


def test_a_turn_that_ends_in_a_message_without_a_statement_has_no_end() -> None:
    said = (TextBlock("a", Role.USER, "Build it."), TextBlock("b", Role.ASSISTANT, "```\nmake dock\n```"))
    turn = Turn("key", "session", Opening.PROMPT, said)

    assert end_of_turn(turn, "", Coverage(["dock"], {"dock": 1}, 2), ()) is None


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("Now I understand the dock. Let me now write the final plan for the dock.", None),
        ("Let me now write the final plan for the whole dock.", None),
        ("Now add the missing planks to the dock and the pier:", None),
        (
            "The dock leaks since its planks are loose. Let me mend them next.",
            "The dock leaks since its planks are loose.",
        ),
    ],
)
def test_the_end_of_a_turn_is_no_announcement_of_the_next_step(last: str, told: str | None) -> None:
    said = (TextBlock("a", Role.USER, "Mend it."), TextBlock("b", Role.ASSISTANT, last))
    turn = Turn("key", "session", Opening.PROMPT, said)

    end = end_of_turn(turn, "", Coverage(["dock"], {"dock": 1}, 2), ())

    assert (None if end is None else end.text) == told
