"""How a failing command was made to pass is read from the calls that followed it."""

from __future__ import annotations

import pytest
from made_turns import Make

from engram.recollection.past_fixes import Resolution, find_resolution, is_same_command
from engram.transcripts.turns import Action, Turn


def resolve(*steps: str | Action, more: Turn | None = None) -> Resolution | None:
    """The resolution of the first call of a turn."""
    turn = Make.turn("please run it", *steps)
    failed = next(action for action in turn.actions if action.is_error)
    return find_resolution([turn, *([more] if more else [])], failed)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("cd /x && bun run test 2>&1", "bun run test | tail -5"),
        ("rtk bun run test", "bun run test"),
        ("git push", "git push --set-upstream origin x"),
        ("git add a b && git commit -m 'one thing'", 'git add a b && git commit -m "another thing"'),
    ],
)
def test_two_forms_of_one_command_are_the_same(first: str, second: str) -> None:
    assert is_same_command(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("bun run lint", "bun run test"),
        ("mix test a_test.exs", "mix test b_test.exs"),
        ("make", "make all"),
        ("", ""),
        ("go vet ./...", "go test ./..."),
    ],
)
def test_other_commands_are_not(first: str, second: str) -> None:
    assert not is_same_command(first, second) or first == second


def test_edits_and_the_words_before_them_are_found_across_turns() -> None:
    later = Make.turn(
        "go on",
        "Now I see. The store must be opened only after the migration has run.",
        Make.edit("/p/store.py", uuid="e1"),
        Make.run("pytest tests", uuid="r2"),
        key="t2",
    )

    found = resolve(Make.run("pytest tests", fails="boom", uuid="r1"), more=later)

    assert found is not None
    assert (found.turn_index, found.files, found.passed_as, found.calls) == (1, ("/p/store.py",), "", 1)
    assert found.words == "The store must be opened only after the migration has run."
    assert {"r1", "e1", "r2"} <= found.between


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (Make.run("pytest tests", uuid="r2"),),
        (Make.run("ls", uuid="l1"), Make.run("pytest tests", uuid="r2")),
        (Make.edit("/p/a.py", uuid="e1"), Make.run("pytest tests | tail -3", uuid="r2")),
        (Make.edit("/p/a.py", uuid="e1"), Make.run("pytest tests", fails="boom", uuid="r2")),
        (Make.edit("/p/a.py", uuid="e1"), Make.run("pytest tests || true", uuid="r2")),
    ],
)
def test_without_a_change_or_a_sure_pass_there_is_no_resolution(steps: tuple[Action, ...]) -> None:
    assert resolve(Make.run("pytest tests", fails="boom", uuid="r1"), *steps) is None


def test_a_helper_and_another_form_are_named() -> None:
    helped = resolve(
        Make.run("npm run lint", fails="boom", uuid="r1"),
        Make.run("git status", uuid="s1"),
        Make.run("npm run lint:fix", uuid="h1"),
        Make.run("npm run lint", uuid="r2"),
    )
    other = resolve(Make.run("rtk npm test", fails="boom", uuid="r1"), Make.run("npm test", uuid="r2"))

    assert helped is not None
    assert (helped.helper, helped.passed_as, helped.words) == ("npm run lint:fix", "", "")
    assert other is not None
    assert (other.helper, other.passed_as, other.calls) == ("", "npm test", 0)
