"""A failing command, edits, and the same command passing make a fix episode."""

from __future__ import annotations

from made_turns import Make

from engram.extraction.fixes import fix_episodes, normal_command


def test_a_failing_test_that_passes_after_an_edit_is_a_fix(make: type[Make]) -> None:
    turn = make.turn(
        "fix it",
        make.run("cd /r && pytest -x 2>&1 | tail -5", fails="E  KeyError: 'a'", uuid="u1"),
        "The key is missing.",
        make.edit("src/a.py", uuid="u2"),
        make.run("pytest -x", uuid="u3"),
    )

    (found,) = fix_episodes([turn])

    assert found.error_line == "E  KeyError: 'a'"
    assert found.files == ("src/a.py",)
    assert (found.failed_uuid, found.passed_uuid) == ("u1", "u3")
    assert found.between == ("u1", "t1-1", "u2", "u3")


def test_a_retry_without_an_edit_is_no_fix(make: type[Make]) -> None:
    turn = make.turn("go", make.run("pytest", fails="boom", uuid="u1"), make.run("pytest", uuid="u2"))

    assert fix_episodes([turn]) == []


def test_an_edit_before_the_failure_does_not_count(make: type[Make]) -> None:
    turn = make.turn(
        "go", make.edit("a.py"), make.run("pytest", fails="boom", uuid="u1"), make.run("pytest", uuid="u2")
    )

    assert fix_episodes([turn]) == []


def test_a_fix_may_span_turns(make: type[Make]) -> None:
    first = make.turn("why?", make.run("make check", fails="no rule", uuid="u1"), key="t1")
    second = make.turn("fix it", make.edit("Makefile", uuid="u2"), make.run("make check", uuid="u3"), key="t2")

    assert [e.turn_key for e in fix_episodes([first, second])] == ["t2"]


def test_other_commands_do_not_pair(make: type[Make]) -> None:
    turn = make.turn(
        "go", make.run("pytest a", fails="x", uuid="u1"), make.edit("a.py"), make.run("pytest b", uuid="u2")
    )

    assert fix_episodes([turn]) == []


def test_commands_compare_without_folders_redirections_and_filters() -> None:
    assert normal_command("cd /x && go test ./... 2>&1 | grep FAIL | head -3") == "go test ./..."
