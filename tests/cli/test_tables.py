"""Tables and facts: a wide cell shifts its own row alone, and no line ends in spaces."""

from __future__ import annotations

import os
from collections.abc import Callable

import click
import pytest

from engram.cli.output import columns_of, print_facts, print_table, say, say_lines, say_wrapped

WIDE = "~/src/a/folder/far/down/in/a/tree/of/which/nobody/remembers/the/root"


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that were printed."""
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_cell_much_wider_than_the_others_shifts_its_own_row_alone(
    capsys: pytest.CaptureFixture[str], at: int
) -> None:
    folders = ["~/harbor", "~/lantern", "~/boats", "~/crates", "~/buoys"]
    folders[at] = WIDE

    print_table(["folder", "turns#", "title"], [(folder, 12, "A title") for folder in folders], empty="")

    head, *rows = lines_of(capsys)
    narrow = [row for number, row in enumerate(rows) if number != at]
    assert {row.index("12") for row in narrow} == {head.index("turns") + 3}
    assert max(map(len, narrow)) < 50
    assert rows[at] == f"{WIDE}     12  A title"


@pytest.mark.parametrize("names", [[WIDE], [WIDE, "~/boats"], ["~/boats", WIDE], ["~/a", "~/b", WIDE]])
def test_a_table_of_few_rows_is_as_wide_as_its_widest_cell(
    capsys: pytest.CaptureFixture[str], names: list[str]
) -> None:
    print_table(["folder", "made", "MB#"], [(name, "2026-11-26", 3) for name in names], empty="")

    head, *rows = lines_of(capsys)
    assert {row.index("2026") for row in rows} == {head.index("made")} == {len(WIDE) + 2}


def test_columns_of_numbers_and_of_like_texts_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "number#"], [("a", 5), ("abcdefgh", 1234), ("数据", 77)], empty="")

    assert lines_of(capsys) == ["name      number", "a              5", "abcdefgh    1234", "数据          77"]


def test_no_line_ends_in_spaces_and_no_rows_are_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "why"], [("a", ""), ("b", "because")], empty="")
    print_table(["name"], [], empty="No names.")
    print_facts([("name", "a"), ("left out", ""), ("a name far longer than those of the other facts", "b"), ("c", 3)])

    lines = lines_of(capsys)
    assert lines == [line.rstrip() for line in lines]
    assert "No names." in lines
    assert "name              a" in lines
    assert "a name far longer than those of the other facts  b" in lines


def test_the_last_column_is_wrapped_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((60, 24)))

    print_table(["id", "title"], [("ep_1", "word " * 30), ("ep_2", "short")], empty="")

    lines = [click.unstyle(line) for line in lines_of(capsys)]
    assert max(map(columns_of, lines)) < 60
    assert [line for line in lines if line.startswith("      word")]
    assert lines[-1] == "ep_2  short"


@pytest.mark.parametrize("columns", [40, 50, 60])
def test_tables_and_facts_fit_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((columns, 24)))

    print_table(["project", "folder", "sessions", "memories"], [("harbor", WIDE, 12, 3), ("b", "~/b", 1, "")], empty="")
    print_table(["setting", "value", "from"], [("llm_base_url", WIDE, "default")] * 5, empty="")
    print_facts([("memory", f"{WIDE}, 3.2 MB"), ("picked by rules before this version", "word " * 20)])
    say_lines("→ look at the log with: engram logs --errors --kind llm", indent="     ")

    lines = [click.unstyle(line) for line in lines_of(capsys)]
    assert max(map(columns_of, lines)) < columns
    assert "".join(line.strip() for line in lines[: lines.index("b")]).count(WIDE) == 1
    assert "  sessions: 12" in lines
    assert "  memories:" not in lines


@pytest.mark.parametrize("printed", [say, say_lines, say_wrapped, lambda text: print_facts([("said", text)])])
@pytest.mark.parametrize("text", ["数据在这里丢失了" * 12, "数据 " * 40, "word " * 30, "die Größe der Häfen " * 8])
def test_every_text_fits_a_terminal_by_columns_and_loses_nothing(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    printed: Callable[[str], None],
    text: str,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((60, 24)))

    printed(text)

    lines = [click.unstyle(line) for line in lines_of(capsys)]
    assert max(map(columns_of, lines)) <= 60
    assert "".join("".join(lines).split()).removeprefix("said") == "".join(text.split())


def test_a_last_column_of_numbers_counts_with_its_heading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((60, 24)))

    print_table(
        ["project", "folder", "memories#"], [("harbor", "/srv/" + "x" * 40, 3), ("lamp", "/srv/y", 1)], empty=""
    )

    lines = [click.unstyle(line) for line in lines_of(capsys)]
    assert max(map(columns_of, lines)) <= 60
    assert "memories: 3" in " ".join(lines)


def test_a_path_that_may_be_copied_stays_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((40, 24)))

    say(f"It is in {WIDE} now.")

    assert WIDE in lines_of(capsys)


@pytest.mark.parametrize("printed", [say, say_lines, say_wrapped, lambda text: print_facts([("resume", text)])])
@pytest.mark.parametrize(
    "command",
    [
        "cd ~/src/harbor && claude --resume 5d4da058-9547-4d8d-9e6a-f1b36f34670a",
        "cd '/srv/old harbor' && CODE_MODE=1 claude --resume 5d4da058-9547-4d8d-9e6a-f1b36f34670a",
        "codex resume 5d4da058-9547-4d8d-9e6a-f1b36f34670a",
    ],
)
def test_a_command_that_resumes_a_session_stays_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, printed: Callable[[str], None], command: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((60, 24)))

    printed(f"q_00000000000000000001 {command} is how")

    assert sum(click.unstyle(line).strip().startswith(command) for line in lines_of(capsys)) == 1


@pytest.mark.parametrize("printed", [say, say_lines, say_wrapped, lambda text: print_facts([("writer", text)])])
@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("Nothing leaves this machine. To let Claude write: {}", "engram install --extractor claude"),
        ("Nothing leaves this machine. So that Claude writes, run: {}", "/opt/bin/engram install --extractor claude"),
        ("Nothing leaves this machine. For Claude, run {}, or else nothing.", "`engram install --extractor claude`"),
    ],
)
def test_a_command_to_type_stays_whole(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    printed: Callable[[str], None],
    text: str,
    command: str,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((60, 24)))

    printed(text.format(command))

    assert sum(command in click.unstyle(line) for line in lines_of(capsys)) == 1


@pytest.mark.parametrize(("text", "columns"), [("", 0), ("abc", 3), ("数据", 4), ("e\u0301", 1), ("ア", 2), ("é", 1)])
def test_columns_are_those_of_a_terminal(text: str, columns: int) -> None:
    assert columns_of(text) == columns
