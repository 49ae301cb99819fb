"""Texts as a person reads them, charts by day, and times: what the templates are given."""

from __future__ import annotations

import pytest

from engram.enums import Kind, Voice
from engram.models.memories.memory_records import Memory
from engram.page.rendering import (
    MAX_STEP,
    NAMES,
    day_chart,
    feature_bars,
    inline_spans,
    quoted_blocks,
    text_blocks,
    title_and_rest,
    to_line,
)
from engram.page.views.costs import money
from engram.page.views.memory import content_beyond
from engram.reports.memory_report import Span
from engram.text.titles import first_sentence
from tests.page.hostile import payloads

DAY_MS = 86_400_000


def letters(text: str) -> str:
    return "".join(char for char in text if char.isalnum())


def shown(text: str, *, is_wrapped: bool = False) -> list[tuple[str, str]]:
    """The kind and the words of each part."""
    return [(block.kind, "".join(span.text for span in block.spans)) for block in text_blocks(text, is_wrapped)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The fix.\n\n[also] More of it.", [("prose", "The fix."), ("label", "Also said"), ("prose", "More of it.")]),
        ("[asked] why is it slow?", [("label", "Asked"), ("prose", "why is it slow?")]),
        ("[todo list]\n- one\n- two", [("label", "To do"), ("prose", "• one\n• two")]),
        (
            "[the user] no\n\n[before it] yes",
            [("label", "The user"), ("prose", "no"), ("label", "Before that"), ("prose", "yes")],
        ),
        (
            "Run this:\n```sh\nmake test\n```\nThen go.",
            [("prose", "Run this:"), ("code", "make test"), ("prose", "Then go.")],
        ),
        ("~~~\nopen to the end", [("code", "open to the end")]),
        ("## Why\n\nIt was slow.", [("prose", "Why\nIt was slow.")]),
        ("# A\n\n## B\ntext\n## C", [("prose", "A\n\nB\ntext\n\nC")]),
        ("an [also] in the middle", [("prose", "an [also] in the middle")]),
        (
            "Both:\n| a | b |\n|---|---|\n| 1 | 2 |\nDone.",
            [("prose", "Both:"), ("code", "| a | b |\n|---|---|\n| 1 | 2 |"), ("prose", "Done.")],
        ),
    ],
)
def test_a_text_is_shown_in_its_parts(text: str, expected: list[tuple[str, str]]) -> None:
    assert shown(text) == expected


def test_code_and_strong_words_lose_their_marks_and_nothing_else() -> None:
    spans = [
        (span.text, span.style) for span in inline_spans("Set `a b` and **use `c` now**, not 2 ** 3 or a lone ` here.")
    ]

    assert spans == [
        ("Set ", ""),
        ("a b", "code"),
        (" and ", ""),
        ("use ", "strong"),
        ("c", "code"),
        (" now", "strong"),
        (", not 2 ** 3 or a lone ` here.", ""),
    ]


def test_code_that_was_cut_off_is_code_and_a_fence_in_a_line_is_left_out() -> None:
    spans = [(span.text, span.style) for span in inline_spans("Run `make te…")]

    assert spans == [("Run ", ""), ("make te…", "code")]
    assert [span.text for span in inline_spans("and `…")] == ["and ", "…"]
    assert "".join(span.text for span in inline_spans("So: ``` make ``` it")) == "So:  make  it"
    assert [span.text for span in inline_spans("## Summary It works, see # 3.")] == ["Summary It works, see # 3."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use ``` to open a block, and ```` too", "Use ``` to open a block, and ```` too"),
        ("Close it with ``` and `go` on", "Close it with ``` and go on"),
        ("```sh make it", "sh make it"),
        ("So: ```sh make i…", "So: sh make i…"),
        ("So: ```sh `make` it``` **now**", "So: sh make it now"),
    ],
)
def test_only_the_fences_of_code_in_a_line_are_left_out(text: str, expected: str) -> None:
    assert "".join(span.text for span in inline_spans(text)) == expected


def test_a_text_of_a_transcript_has_no_labels() -> None:
    said = "It printed:\n[also] one\n[asked] two"

    assert [block.kind for block in quoted_blocks([Span(said[:14]), Span(said[14:], True)])] == ["prose"]
    assert text_blocks(said, is_labelled=False) == quoted_blocks([Span(said)])
    assert [block.kind for block in text_blocks(said)] == ["prose", "label", "prose", "label", "prose"]


def test_what_is_marked_in_a_quotation_stays_marked_in_its_parts() -> None:
    quotation = [
        Span("See:\n"),
        Span("- it **cuts** the half cent.\n```\nint(x)\n```", True),
        Span("\n\nOK `a`."),
    ]

    blocks = quoted_blocks(quotation)

    assert [(block.kind, "".join(span.text for span in block.spans)) for block in blocks] == [
        ("prose", "See:\n• it cuts the half cent."),
        ("code", "int(x)"),
        ("prose", "OK a."),
    ]
    marked = ["".join(span.text for span in block.spans if span.is_marked).strip() for block in blocks]
    assert marked == ["it cuts the half cent.", "int(x)", ""]
    assert quoted_blocks([Span("a \ue000b\ue001 c")]) == text_blocks("a b c")


@pytest.mark.parametrize("text", [*payloads(), "a\r\nb", "```\n\n```", "`" * 50, "**" * 40, "x" * 30_000, ""])
def test_no_word_of_a_text_is_lost(text: str) -> None:
    kept = "".join(span.text for block in text_blocks(text) for span in block.spans)
    assert letters(kept) == letters(text)


def test_lines_that_were_broken_at_a_width_are_joined_and_others_are_not() -> None:
    wrapped = (
        "Instead of the generic message of the library, display\nthe available agents with the default one.\n\n"
        "- a list\n- stays"
    )
    (_, told), *rest = shown(wrapped, is_wrapped=True)

    assert told.startswith("Instead of the generic message of the library, display the available agents")
    assert told.endswith("\n\n• a list\n• stays")
    assert not rest
    assert "\nthe available" in shown(wrapped)[0][1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One thing is so. Another follows.", ("One thing is so", "Another follows.")),
        ("Use it, e.g. here and there. Then stop.", ("Use it, e.g. here and there", "Then stop.")),
        ("No end at all", ("No end at all", "")),
        ("これは長い文章であり、十二文字より長い。次の文。", ("これは長い文章であり、十二文字より長い。", "次の文。")),
        (
            f"The plan of the whole work was approved: {'word ' * 60}",
            ("The plan of the whole work was approved", ("word " * 60).strip()),
        ),
        ("word " * 60, ("", "")),
    ],
)
def test_the_first_sentence_is_the_head_of_a_memory(text: str, expected: tuple[str, str]) -> None:
    assert first_sentence(text) == expected


def test_a_line_keeps_what_was_chosen() -> None:
    line = to_line(f"Asked “Which store holds {'the many ' * 20}plans?” the user chose: A file for each plan.", 90)

    assert line.endswith("…” the user chose: A file for each plan.")
    assert len(line) <= 90


def test_a_list_shows_the_summary_with_its_title_first() -> None:
    def memory(summary: str, title: str = "", content: str = "", voice: Voice = Voice.CHOSEN) -> Memory:
        return Memory("ep_000000000001", Kind.FIX, summary, content=content, title=title, voice=voice)

    assert memory("Fix the tree of a folder: use it directly.").headline == (
        "Fix the tree of a folder",
        ": use it directly.",
    )
    assert memory("Something was done.", title="A title").headline == ("A title", " – Something was done.")
    repaired = memory("`make test` failed: The port was taken. It passed after a change of a.py.")
    assert repaired.headline == (
        "Fixed: The port was taken",
        " – `make test` failed. It passed after a change of a.py",
    )
    chosen = memory("Asked “Which store?” the user chose: Redis for a week. It expires.")
    assert chosen.headline == ("Chosen: Redis for a week", " – Asked “Which store?”. It expires")
    refused = memory("When the user refused a change of cfg.py, they said: “keep the old name”")
    assert refused.headline == ("Refused: keep the old name", " – When the user refused a change of cfg.py")
    approved = memory("The user approved the plan “Move the store”: Copy it first.")
    assert approved.headline == ("Plan approved: Move the store", " – Copy it first")
    asked = memory("Left open: the user asked “Find the cause of the flicker now. Then test it.” and stopped.")
    assert asked.headline == ("Left open: Find the cause of the flicker now", " – “Then test it” and stopped")
    assert memory("Left open: write the docs.").headline == ("Left open: write the docs", ".")
    crane = "Cranes: Crane 3 must not be used above wind force 7. Ask the harbour."
    assert memory(crane).headline == (crane[:51], crane[51:])
    assert "".join(memory("one two three four five six seven eight nine ten eleven twelve").headline) == (
        "one two three four five six seven eight nine ten eleven twelve"
    )
    assert title_and_rest(memory("Something was done. More.", title="A title")) == (
        "A title",
        "Something was done. More.",
    )
    for summary in (crane, repaired.summary, "Fix the tree of a folder: use it directly."):
        named = memory(summary)
        assert title_and_rest(named)[0] == named.headline[0]
    cut = memory(f"`make test` failed: {'The port was taken by another process ' * 2}again. It passed.")
    assert title_and_rest(cut) == (cut.headline[0], "It passed.")
    endless = memory("word " * 60)
    assert title_and_rest(endless) == (f"{endless.headline[0]}…", endless.summary)
    goes_on = "Always run the browser tests in a headless shell; never open a window on the build machine."
    assert title_and_rest(memory(goes_on)) == ("Always run the browser tests in a headless shell", goes_on)
    assert title_and_rest(memory(crane))[1] == "Ask the harbour."
    asked = "Asked “Which cache do we use? It must be small.” the user chose: Redis."
    assert title_and_rest(memory(asked)) == ("Chosen: Redis", asked)
    assert content_beyond(memory(asked, content="Which cache do we use? It must be small. → Redis")) == ""
    assert content_beyond(memory(asked, content="Which cache? → Redis\n\n[also] Or not.")).endswith("Or not.")
    assert content_beyond(memory(asked, content="Which cache? → Valkey")) == "Which cache? → Valkey"
    assert content_beyond(memory(asked, content="Redis → Which cache?")) == "Redis → Which cache?"
    told = memory("Never go back from Redis to Postgres.", content="Redis → Postgres", voice=Voice.USER)
    assert content_beyond(told) == "Redis → Postgres"
    assert content_beyond(memory("It is so. Yes.", content="It is so.\n\nYes")) == ""
    assert content_beyond(memory("It is so.", content="It is so\n\n[also] And more.")) == "[also] And more."
    assert content_beyond(memory("It is so.", content="Something else.")) == "Something else."


def test_a_chart_has_both_axes_and_the_value_of_each_day() -> None:
    start = 1_700_000_000_000
    days = [(start + DAY_MS * number, start + DAY_MS * (number + 1)) for number in range(30)]
    chart = day_chart(days, [0] * 28 + [1, 44])

    assert (chart.top, chart.half, chart.total) == ("60", "30", "45")
    assert [bar.step for bar in chart.bars[-3:]] == [0, 1, round(44 / 60 * MAX_STEP)]
    assert chart.bars[-1].label.endswith(": 44")
    assert [bar.tick != "" for bar in chart.bars].count(True) == 5
    assert chart.bars[-1].tick == "today"
    assert day_chart(days, [0] * 30).top == "2"
    assert day_chart(days, [0.0] * 29 + [0.16], money, limit=1.0).line == MAX_STEP
    assert day_chart(days, [1_234.0] * 30).top == "2,000"


def test_a_chart_needs_three_days_and_a_feature_something_that_it_adds() -> None:
    days = [(DAY_MS * number, DAY_MS * (number + 1)) for number in range(30)]
    assert [day_chart(days, [0] * (30 - some) + [2] * some).is_telling for some in (0, 2, 3)] == [False, False, True]
    assert [bar.name for bar in feature_bars({"rare": 9.0, "words": 0.0, "turn": 0.001})] == ["rare words in common"]
    assert len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize(("dollars", "text"), [(0, "$0.00"), (0.5, "$0.50"), (0.1603, "$0.1603"), (12.345, "$12.35")])
def test_dollars_hide_no_part_of_a_cent(dollars: float, text: str) -> None:
    assert money(dollars) == text
