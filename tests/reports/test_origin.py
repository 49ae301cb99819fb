"""Where a memory comes from: its turns, with the sentence marked that says it."""

from __future__ import annotations

import pytest

from engram.page.rendering import quoted_blocks
from engram.reports.memory_report import MAX_AROUND_CHARACTERS, mark_sentences


def marked(text: str, wanted: str) -> list[str]:
    return [span.text for span in mark_sentences(text, wanted) if span.is_marked]


def test_a_statement_that_stands_there_is_marked_whole() -> None:
    text = "We looked. The cache is keyed by path. Done."

    assert marked(text, "The cache is keyed by path.") == ["The cache is keyed by path."]
    assert "".join(span.text for span in mark_sentences(text, "The cache is keyed by path.")) == text


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        (
            "I ran it. The export loses cents. Next I test.",
            "The export loses its cents",
            ["The export loses cents."],
        ),
        ("Hello there. How are you?", "The export loses its cents", []),
        ("", "anything", []),
        ("Nothing to compare with.", "", []),
    ],
)
def test_the_sentence_that_says_the_most_is_marked(text: str, wanted: str, expected: list[str]) -> None:
    assert marked(text, wanted) == expected


@pytest.mark.parametrize(
    ("code", "after"), [("", "Hence. "), ("x = int(y)\n" * 60, "Hence. "), ("x = int(y)\n" * 60, "")]
)
def test_code_whose_beginning_is_cut_off_stays_code_and_nothing_else_becomes_it(code: str, after: str) -> None:
    from engram.reports.memory_report import _shorten

    told = "The export loses the cents."
    text = f"{'before. ' * 60}\n```py\n{code}z = 1\n```\n{after}{told} So it is."
    blocks = quoted_blocks(_shorten(mark_sentences(text, told)))
    shown = [(block.kind, "".join(span.text for span in block.spans)) for block in blocks]

    assert shown[-1] == ("prose", f"{after}{told} So it is.")
    assert shown[-2][0] == "code"
    assert shown[-2][1].startswith(("…\nx", "…\nint(y)\n") if code else "z = 1")
    assert shown[-2][1].endswith("z = 1")


def test_around_the_mark_a_long_text_is_cut() -> None:
    from engram.reports.memory_report import _shorten

    text = "before. " * 200 + "The export loses the cents. " + "after. " * 200
    spans = _shorten(mark_sentences(text, "The export loses the cents."))

    assert [span.is_marked for span in spans] == [False, True, False]
    assert spans[0].text.startswith("… ")
    assert spans[2].text.endswith(" …")
    assert all(len(span.text) <= MAX_AROUND_CHARACTERS + 4 for span in spans)
