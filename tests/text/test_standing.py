"""A sentence that says something on its own is told from a fragment, and from a report of the moment."""

from __future__ import annotations

import pytest

from engram.text.splitting import is_of_the_moment, standing_part, stands_alone, whole_sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "Migrations run in the pipeline, never by hand on the server.",
        "The watcher holds watcher.lock by flock, never by a PID file",
        "`git clean -fd` removes untracked files, so `git checkout .` may fail when only new files exist.",
        "Release notes are written before the tag is pushed, never after.",
        "Generated files are built by the pipeline, so never commit them.",
        "Die Mehrwertsteuer wird pro Zeile gerundet, nicht für die Summe.",
        "キャッシュは一週間保存され、夜間に削除されます。",
    ],
)
def test_a_whole_statement_stands_alone(sentence: str) -> None:
    assert stands_alone(sentence)
    assert not is_of_the_moment(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "This prevents the worker from being started twice.",
        "Part 2 — Fix the consolidation: added a call after the fourth phase.",
        "`src/engine.ts`: Added a call to `consolidate` after phase 4 completes.",
        "Changes made to `src/prompt.ts`: step 9 inserted; 9 renumbered; 11 added.",
        "The bug: the trigger was only in one of the two paths.",
        "I see the issue, all badges use the same gray styling.",
        "yes and do not wrap long lines in the markdown",
        "The helper writes 2 messages, so the upsert identity isn't working…",
        "Should the plan prompt get the same instructions? → No, it should not.",
        "A `half of code that was cut off",
        "Too short.",
        "",
    ],
)
def test_a_fragment_does_not_stand_alone(sentence: str) -> None:
    assert not stands_alone(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "All 7 CodeRabbit findings addressed, replied, and resolved.",
        "All 87 tests pass now.",
        "The full test suite (87 tests, 0 failures) already passed.",
        "The change is done and the branch was pushed.",
        "That was a stale background task from the previous session.",
        "The change is not committed.",
        "The change was never committed, and one file is uncommitted.",
        "Claude changed the parser, but did not commit.",
        "The branch has no commits.",
    ],
)
def test_a_report_of_what_was_just_done_is_of_the_moment(sentence: str) -> None:
    assert is_of_the_moment(sentence)


def test_sentences_are_never_cut() -> None:
    first, second = "The cache holds a week of answers at most.", "A night job removes older ones from the disk."

    assert whole_sentences(f"{first} {second}", 200) == f"{first} {second}"
    assert whole_sentences(f"{first} {second}", 60) == first
    assert whole_sentences(f"{first} {second}", 20) == ""
    assert standing_part(f"{first} That is why it is fast.", 200) == first
    assert standing_part(f"{first} All 12 tests pass now.", 200) == first
