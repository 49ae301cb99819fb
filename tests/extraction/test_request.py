"""What the language model is told: dated lines with ids, how commands ended, what is kept already, nothing cut
needlessly.
"""

from __future__ import annotations

import dataclasses
import re

import pytest

from engram.extraction.candidate import ExtractionContext, NearMemory
from engram.extraction.model.model_request import (
    MAX_MEMORIES,
    MAX_MEMORIES_LONG,
    MAX_PASTED_CHARACTERS,
    MAX_REQUEST_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    MIN_TEXT_CHARACTERS,
    batches,
    fitting_length,
    is_acknowledgement,
    request_text,
    sent_text,
)
from engram.transcripts.turns import Action, EntryRef, Opening, Role, TextBlock, Turn

#: 2026-02-21 14:02 UTC.
AT_MS = 1_771_682_520_000


def said(uuid: str, text: str, *, by: Role = Role.ASSISTANT, minutes: int = 0) -> TextBlock:
    return TextBlock(uuid, by, text, at_ms=AT_MS + minutes * 60_000)


def turn(*parts: TextBlock | Action, branch: str = "") -> Turn:
    return Turn(
        key="t1",
        session_id="s",
        opening=Opening.PROMPT,
        said=tuple(part for part in parts if isinstance(part, TextBlock)),
        actions=tuple(part for part in parts if isinstance(part, Action)),
        entries=tuple(EntryRef(part.uuid, n * 10, 9, n + 1) for n, part in enumerate(parts)),
        branch=branch,
        is_closed=True,
    )


def ran(uuid: str, command: str, **facts: object) -> Action:
    action = Action(tool_use_id=uuid, tool="Bash", uuid=uuid, command=command, is_error=False)
    return action._replace(**facts)  # type: ignore[arg-type]


def told(*turns: Turn, **context: object) -> str:
    return request_text(turns, ExtractionContext(project="demo", **context))[0]  # type: ignore[arg-type]


def test_texts_and_commands_stand_in_order_with_ids_dates_and_outcomes() -> None:
    one = turn(
        said("u1", "Which cache do we take?", by=Role.USER),
        said("a1", "Redis, because the queue needs it anyway."),
        ran("a2", "make test", is_error=True, error_line="FAIL cache_test"),
        ran("a3", "git commit -m cache", commit="abc1234 Take Redis"),
        ran("a4", "make lint"),
        said("a5", "The cache is Redis now.", minutes=3),
        branch="feat/cache",
    )

    text, ids = request_text([one], ExtractionContext(project="demo"))

    assert text.splitlines()[-7:] == [
        "branch: feat/cache",
        "[e1] user 2026-02-21 14:02: Which cache do we take?",
        "[e2] assistant 2026-02-21 14:02: Redis, because the queue needs it anyway.",
        "[c1] ran: make test → failed: FAIL cache_test",
        "[c2] ran: git commit -m cache → committed: Take Redis",
        "[c3] ran: make lint → ok",
        "[e3] assistant 2026-02-21 14:05: The cache is Redis now.",
    ]
    assert "time: 2026-02-21 14:02 to 2026-02-21 14:05" in text
    assert ids.said["e3"][1].uuid == "a5"
    assert ids.actions["c1"][1].uuid == "a2"


def test_kept_memories_are_shown_with_date_kind_and_state_and_can_be_answered_by_id() -> None:
    own = NearMemory("We take Redis", "ep_1", "decision", "in force", AT_MS)
    near = NearMemory("Never push on Friday", "ep_2", "preference", "in force", AT_MS - 86_400_000 * 17, is_fixed=True)

    text, ids = request_text([turn(said("u1", "Hello", by=Role.USER))], ExtractionContext(own=(own,), near=(near,)))

    assert "[m1] 2026-02-21 decision, in force: We take Redis" in text
    assert "[m2] 2026-02-04 preference, in force, the user's own: Never push on Friday" in text
    assert [ids.memories[short].reference for short in ("m1", "m2")] == ["ep_1", "ep_2"]


@pytest.mark.parametrize("text", ["Now let me run the tests:", "Good.", "I'll update the docs now.", "All tests pass."])
def test_an_announcement_of_the_assistant_is_left_out(text: str) -> None:
    request = told(turn(said("u1", "Go", by=Role.USER), said("a1", text), said("a2", "The cause was the lock.")))

    assert text not in request
    assert "The cause was the lock." in request


@pytest.mark.parametrize(
    "text",
    [
        "The tokens are signed with RS256. Let me implement the check:",
        "Ids are hashed before they are stored. Now let me write the test.",
        "Good, the lock is per process. Let me add one for the file:",
        "The parser reads UTF-16 too. I'll update the docs now.",
        "Perfect! Rows come back sorted by name. Next, the view:",
    ],
)
def test_a_fact_in_front_of_an_announcement_is_sent(text: str) -> None:
    assert text in told(turn(said("u1", "Go", by=Role.USER), said("a1", text), said("a2", "The cause was the lock.")))


@pytest.mark.parametrize(
    "text", ["Good. Now let me run the tests:", "Done! Next I'll commit.", "Great, let me check.", "You're right!"]
)
def test_several_announcements_are_left_out_too(text: str) -> None:
    assert text not in told(turn(said("u1", "Go", by=Role.USER), said("a1", text), said("a2", "It was the lock.")))


PLAN = "\n".join(
    ["# Plan: move the store", *(f"## Step {n}\nMove table {n} to its own file, then test." for n in range(80))]
)
REVIEW = "\n".join(f"> {n}. The handler of route {n} swallows errors; log them." for n in range(80))
LOG = (
    "```\n"
    + "\n".join(f"2026-01-02 10:00:{n % 60:02} INFO step {n} of the long build was done" for n in range(80))
    + "\n```"
)


@pytest.mark.parametrize("pasted", [PLAN, REVIEW, LOG])
def test_what_is_pasted_loses_its_middle_and_what_is_typed_around_it_stays(pasted: str) -> None:
    typed = "Do the following, but never touch the tables of the hub."

    request = told(turn(said("u1", f"{typed}\n\n{pasted}", by=Role.USER)))

    assert typed in request
    assert "[…]" in request
    assert len(request) < len(typed) + MAX_PASTED_CHARACTERS + 500
    assert pasted.splitlines()[1][:30] in request


@pytest.mark.parametrize(
    ("role", "longest"), [(Role.CONTEXT, MAX_PASTED_CHARACTERS), (Role.PROPOSED, MIN_TEXT_CHARACTERS)]
)
def test_what_the_user_did_not_write_is_cut_and_what_the_assistant_says_is_not(role: Role, longest: int) -> None:
    assert len(sent_text(said("x1", "word " * 900, by=role))) <= longest + 10
    assert len(sent_text(said("x1", "word " * 900))) == 4_500
    assert len(sent_text(said("x1", "A line that I type myself.\n" * 100, by=Role.USER))) == 2_700


@pytest.mark.parametrize(
    "one",
    [
        said("a1", "Now I see: it fails because the lock is held"),
        said("a1", "Should I keep the old name?"),
        said("u1", "ok", by=Role.USER),
    ],
)
def test_what_says_something_and_what_the_user_says_is_not_an_acknowledgement(one: TextBlock) -> None:
    assert not is_acknowledgement(one)


def test_the_closing_message_is_always_told() -> None:
    assert "Done." in told(turn(said("u1", "Go", by=Role.USER), said("a1", "Done.")))


def test_a_long_text_is_whole_where_the_budget_allows_and_loses_its_middle_where_not() -> None:
    long = "begin " + "middle " * 800 + "end"
    beside = [said(f"b{number}", f"{number} " + "other " * 700) for number in range(30)]

    alone = told(turn(said("u1", "Go", by=Role.USER), said("a1", long)))
    crowded = told(turn(said("u1", "Go", by=Role.USER), said("a1", long), *beside[:18]))

    assert long in alone
    assert long not in crowded
    assert "[…]" in crowded
    assert len(crowded) <= MAX_REQUEST_CHARACTERS


def test_the_longest_length_that_fits_is_found() -> None:
    assert fitting_length([100, 200], 10_000) == MAX_TEXT_CHARACTERS
    assert fitting_length([50_000] * 100, 1_000) == MIN_TEXT_CHARACTERS
    assert sum(min(length, fitting_length([9_000] * 4, 20_000)) + 40 for length in [9_000] * 4) <= 20_000


def test_every_text_of_a_long_session_is_in_one_request_of_bounded_size() -> None:
    turns = [dataclasses.replace(turn(said(f"a{n}", f"question {n} " + "word " * 500)), key=f"t{n}") for n in range(80)]

    parts = batches(turns)

    texts = [request_text(part, ExtractionContext())[0] for part in parts]
    assert len(parts) > 1
    assert all(len(text) <= MAX_REQUEST_CHARACTERS for text in texts)
    assert all(sum(f"question {n} " in text for text in texts) == 1 for n in range(80))


def test_a_long_part_may_bring_more_memories() -> None:
    short = told(turn(said("u1", "Go", by=Role.USER)))
    middle = told(*[turn(said("a1", "word " * 600))] * 12)
    long = told(*[turn(said("a1", "word " * 1_000))] * 13)

    assert f"memories: at most {MAX_MEMORIES}\n" in short
    assert "memories: at most 12\n" in middle
    (limit,) = re.findall(r"^memories: at most (\d+)$", long, re.MULTILINE)
    assert 15 <= int(limit) <= MAX_MEMORIES_LONG


def test_the_same_turns_make_the_same_request() -> None:
    one = turn(said("u1", "Go", by=Role.USER), ran("a1", "make test"), said("a2", "Done."))

    assert told(one) == told(dataclasses.replace(one, cwd="/elsewhere", start_offset=77))
