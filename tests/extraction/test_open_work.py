"""What a session leaves open is a memory: todos, the last failing command, and what was asked for and not got."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_turns import Make

from engram.enums import Kind, Status
from engram.extraction.local.local_extractor import open_work
from engram.transcripts.turns import Action, Todo, TodoState, Turn


def todos(*texts: str, done: tuple[str, ...] = (), uuid: str = "u1") -> Action:
    listed = [Todo("", text, TodoState.OPEN) for text in texts] + [Todo("", text, TodoState.DONE) for text in done]
    return Action(tool_use_id=uuid, tool="TodoWrite", uuid=uuid, todos=tuple(listed), is_todo_list=True, is_error=False)


def left(*turns: Turn) -> Any:
    return open_work(turns)


def test_open_todos_and_the_last_failing_command_are_left_open(make: type[Make]) -> None:
    failed = make.run("cd app && pytest tests/test_cache.py 2>&1 | tail -3", fails="E zebra", uuid="u2")
    turn = make.turn("go", todos("Mend the cache", "Add a test", done=("Read it",)), failed, "More tomorrow.")

    found = left(turn)

    assert found.summary == (
        "Left open: Mend the cache; Add a test. The last run of `pytest tests/test_cache.py` failed."
    )
    assert (found.kind, found.status, found.evidence) == (Kind.STATE, Status.ACTIVE, ("u1", "u2"))
    assert "zebra" not in found.content


@pytest.mark.parametrize(
    "prompt",
    [
        "The importer drops the last row of every file.",
        "Mend the importer so that it keeps the last row.",
        "https://github.com/o/r/issues/12#c1 Find the cause of this crash in the importer.",
    ],
)
def test_what_was_asked_for_and_not_got_is_left_open(make: type[Make], prompt: str) -> None:
    stopped = replace(make.turn(prompt, "Let me look."), is_interrupted=True)
    without_answer = make.turn(prompt)

    for found in (left(stopped), left(without_answer)):
        words = prompt.replace("https://github.com/o/r/issues/12#c1", "issue 12:")
        assert found.summary == f"Left open: the user asked “{words}” and stopped before it was done."
        assert found.evidence == ("t1-p",)


@pytest.mark.parametrize(
    "prompt",
    [
        "continue",
        "stop, wait",
        "why does the importer drop the last row?",
        "yes do it",
        "the importer does not start",
        "From now on always read the last row of every file, please.",
        "/weigh the importer and tell me which rows of the file it drops",
    ],
)
def test_what_asks_for_no_work_is_not_left_open(make: type[Make], prompt: str) -> None:
    assert left(replace(make.turn(prompt, "Let me look."), is_interrupted=True)) is None


def test_what_is_left_open_says_only_what_was_said(make: type[Make]) -> None:
    found = left(
        make.turn("Please rebuild the whole importer of our csv files the way our vendor suggested, with a queue.")
    )

    assert found.summary == (
        "Left open: the user asked “Please rebuild the whole importer of our csv files” and stopped before it was done."
    )


def test_a_rule_is_not_left_open(make: type[Make]) -> None:
    assert left(make.turn("Always run the linter before you push.")) is None


def test_what_is_done_committed_or_continued_is_not_left_open(make: type[Make]) -> None:
    prompt = "Mend the importer so that it keeps the last row."
    listed = todos("Mend the cache")
    commit = make.run("git commit -m x", uuid="c1")._replace(commit="abc1234 mend")

    assert left(make.turn(prompt, "Done: it keeps the row.")) is None
    assert left(replace(make.turn(prompt, make.edit("a.py"), "Done."), is_interrupted=True)) is None
    assert left(make.turn("go", listed, commit, "Committed.")) is None
    assert left(make.turn("go", listed, todos(done=("Mend the cache",), uuid="u3"), "Done.")) is None
    assert left(make.turn(prompt), make.turn("go on", key="t2")) is None
    assert left() is None
