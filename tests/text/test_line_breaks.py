"""A backslash that was typed for a line break is left out, and one of a path, a command or code is kept."""

from __future__ import annotations

from engram.text.markdown import readable_lines, without_breaks
from tests.each_case import each_case

FENCED = "```sh\nquay list\\\n--all\n```"


@each_case(
    ("typed", "read"),
    [
        ("Two tests fail:\\\n\\\ntest_quay", "Two tests fail:\n\ntest_quay"),
        ("Look at mast.py \\\n\\\nThe bell rings", "Look at mast.py\n\nThe bell rings"),
        ("The bell rings\\", "The bell rings"),
        ("quay list \\\n  --all", "quay list \\\n  --all"),
        ("They are in D:\\\nand in C:\\quay\\", "They are in D:\\\nand in C:\\quay\\"),
        ("a \\ b and \\n", "a \\ b and \\n"),
        ("Run it:\n\n    quay list\\\n      --all", "Run it:\n\n    quay list\\\n      --all"),
        (FENCED, FENCED),
    ],
)
def test_only_a_line_break_is_left_out(typed: str, read: str) -> None:
    assert without_breaks(typed) == read


def test_the_terminal_shows_no_line_break() -> None:
    lines = [line for line, _ in readable_lines("Two tests fail:\\\n\\\ntest_quay")]

    assert lines == ["Two tests fail:", "test_quay"]
