"""Failing commands are told apart by their programs and by what their errors state, not by where and when."""

from __future__ import annotations

import pytest

from engram.text.shell import MAX_LINES, error_keys, normal_line, programs_of, telling_lines


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("go test ./... -run 'TestA && TestB' 2>&1 | tail -5", ("go test",)),
        ("cd src && bun run lint && bun run test", ("bun run lint", "bun run test")),
        ("FOO=1 BAR='a b' npm run build; git push -u origin x", ("npm run build", "git push")),
        ("/usr/local/bin/python3 x.py", ("python3",)),
        ("git -C /x add a", ("git",)),
        ('python -c "\nimport json\nprint(1)"', ("python",)),
        ("cat a | grep b; ls", ()),
        ("", ()),
        ("$(which go) vet", ()),
    ],
)
def test_a_command_is_known_by_its_programs_and_subcommands(command: str, programs: tuple[str, ...]) -> None:
    assert programs_of(command) == programs


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("src/a.go:12:3: undefined: defaultAgent value", "pkg/b.go:7: undefined: defaultAgent value"),
        ("a.ts(236,2): error TS2322: Type is not assignable", "b.ts(9,11): error TS2322: Type is not assignable"),
        ("cannot open /home/me/x/data.json twice", "cannot open C:\\work\\data.json twice"),
        ("lock 0xdeadbeef01 was refused at 12:30:01", "lock 0xfeedface22 was refused at 09:10:44"),
        (
            "Error return value of `f.Close` is not checked (errcheck)",
            "Error return value of `Tree` is not checked (errcheck)",
        ),
        ("\x1b[31mfatal\x1b[0m: no upstream branch set", "fatal: no upstream branch set"),
    ],
)
def test_what_differs_between_two_runs_makes_no_difference(first: str, second: str) -> None:
    assert error_keys(telling_lines(first)) == error_keys(telling_lines(second)) != ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("bash: zsh: command not found", "bash: ruby: command not found"),
        ("error: unrecognized subcommand 'bun'", "error: unrecognized subcommand 'git'"),
        ("ImportError: cannot import name 'a_b' from 'pkg'", "ImportError: cannot import name 'c_d' from 'pkg'"),
        ("cd: src: No such file or directory", "cd: test: No such file or directory"),
    ],
)
def test_symbols_keep_errors_apart(first: str, second: str) -> None:
    assert not set(error_keys(telling_lines(first))) & set(error_keys(telling_lines(second)))


@pytest.mark.parametrize(
    "line",
    [
        "FAIL",
        "[lint] ERROR task failed",
        "Found 3 errors.",
        'error: script "lint" exited with code 1',
        "Tests failed: 4",
    ],
)
def test_what_every_failure_says_identifies_none(line: str) -> None:
    assert error_keys(telling_lines(line)) == ()


def test_the_branch_is_hidden() -> None:
    first, second = (normal_line(f"fatal: The branch {name} has no upstream", [name]) for name in ("x-gqc", "y-dov"))

    assert first == second == "fatal the branch has no upstream"


def test_of_a_long_error_the_most_telling_lines_of_both_ends_count() -> None:
    noise = [f"2026/01/12 INFO step {number} had an error" for number in range(2_000)]
    text = "\n".join(["ValueError: wrong shape of input", *noise, "fatal: gave up on the repository"])

    assert telling_lines(text) == ("ValueError: wrong shape of input", "fatal: gave up on the repository")
    assert len(telling_lines("\n".join(f"error: unknown option number {word}" for word in "abcdefghijkl"))) == MAX_LINES


def test_any_text_is_read_in_time() -> None:
    for text in ("a/" * 50_000, "error: " + "x" * 300_000, "`" * 5_000 + "error", "\\n" * 10_000, "é error \0 no such"):
        assert len(error_keys(telling_lines(text))) <= MAX_LINES
