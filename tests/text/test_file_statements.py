"""Whether a file says the same as a memory, or something else."""

from __future__ import annotations

import pytest

from engram.text.subject import StandingText

FILE = """# Building

- Use **pnpm** for every install of packages, never npm.
- The walrus proxy listens on port 7070 since the move to nginx.

## Deploys
Never deploy on Fridays, because nobody watches the dashboards at the weekend.
"""


@pytest.fixture
def standing() -> StandingText:
    return StandingText([("CLAUDE.md", FILE)])


@pytest.mark.parametrize(
    "text",
    [
        "Use pnpm for every install of packages, never npm.",
        "Use `pnpm`, never npm, for installing packages",
        "Never deploy on Fridays.",
        "The walrus proxy listens on port 7070.",
    ],
)
def test_the_same_in_other_order_or_shorter_is_said(standing: StandingText, text: str) -> None:
    assert standing.file_saying(text) == "CLAUDE.md"


@pytest.mark.parametrize(
    "text",
    [
        "The walrus proxy listens on port 9090.",
        "Deploy on Fridays.",
        "pnpm drops the lockfile when two versions of node are installed side by side, so pin node.",
        "The walrus proxy drops headers.",
        "",
    ],
)
def test_more_or_something_else_is_not_said(standing: StandingText, text: str) -> None:
    assert standing.file_saying(text) == ""


def test_another_value_and_the_opposite_contradict(standing: StandingText) -> None:
    assert standing.contradicting("The walrus proxy listens on port 9090.").startswith("CLAUDE.md: The walrus proxy")
    assert StandingText([("r.md", "Deploy on Fridays.")]).contradicting("Never deploy on Fridays.") == (
        "r.md: Deploy on Fridays."
    )


@pytest.mark.parametrize("text", ["The walrus proxy drops headers.", "Tests never sleep.", "Use pnpm for installs."])
def test_what_is_about_something_else_contradicts_nothing(standing: StandingText, text: str) -> None:
    assert standing.contradicting(text) == ""
