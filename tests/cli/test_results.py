"""What people are shown of what was found: the best first, in few lines, wrapped, and plain where that is wanted."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from engram.cli import output
from engram.cli.main import engram, main
from engram.cli.results import (
    MAX_FIRST_LINES,
    MAX_OTHER_LINES,
    Result,
    hit_result,
    in_folder,
    print_head,
    print_results,
)
from engram.models.sessions.passage_rows import EvidencePlace
from engram.search.hits import Origin, later_word
from engram.search.passages.wanted import Wanted
from engram.search.question import coverage_of_words
from engram.text.titles import with_short_question
from engram.text.words import is_unspaced
from engram.trust.display import cut_at_word, number_of, visible
from tests.hits import PLAIN, hit

HIT = hit(
    text="The mast is cedar, because pine warps in the sun.",
    score=1.234,
    parts={"text": 0.4, "vector": 0.6},
    project="boats",
    origin=Origin(resume="claude --resume s-1", session_title="Build the mast"),
    title="Build the mast",
)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns, without a wish about colour."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)


def printed(capsys: pytest.CaptureFixture[str], *results: Result, is_verbose: bool = False) -> list[str]:
    print_results(results, is_verbose=is_verbose)
    return capsys.readouterr().out.splitlines()


def test_an_answer_has_a_line_that_ends_with_its_id_then_the_sentences_then_what_resumes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed(capsys, hit_result(HIT)) == [
        "1. Build the mast · 2026-02-20 · boats · Claude [q_0123456789ab1]",
        "   The mast is cedar, because pine warps in the sun.",
        "claude --resume s-1",
    ]


def test_scores_and_places_are_printed_only_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    brief = "\n".join(printed(capsys, hit_result(HIT, with_parts=True)))
    full = "\n".join(printed(capsys, hit_result(HIT, with_parts=True), is_verbose=True))

    assert "1.234" not in brief
    assert "its words" not in brief
    assert "score 1.234" in full
    assert "its meaning +0.60, its words +0.40" in full


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 300])
def test_no_line_is_wider_than_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    long = replace(
        HIT,
        text="The mast is cedar. " * 40,
        title="Which wood the mast of the boat is made of",
        outcome="It held. " * 30,
    )

    lines = printed(
        capsys, hit_result(long), hit_result(replace(long, project="a-project-with-a-long-name-of-its-own"))
    )

    assert max(map(len, lines)) <= min(columns, output.MAX_PARAGRAPH_WIDTH)


@pytest.mark.parametrize(
    "whole",
    [
        "/srv/harbor/src/a-folder-with-many-hyphens/and-another-one/with-a-file-name-that-is-long.py",
        "--dangerously-skip-permissions-and-everything-else-that-could-ever-be-asked-about-a-tool",
        "https://example.org/a/very/long/address/that-has-many-hyphens-and-no-blank-in-it?query=1",
        "ghcr.io/acme-harbor/very-long-image-name-with-hyphens@sha256:0123456789abcdef0123456789",
    ],
)
def test_what_somebody_copies_is_never_broken(whole: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, hit_result(replace(HIT, text=f"The cause was in {whole}, which nobody had seen.")))

    assert any(whole in line for line in lines)


@pytest.mark.parametrize("columns", [40, 52, 60, 80, 100])
def test_the_head_of_a_result_is_one_line_that_ends_with_the_whole_id(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    lines = printed(capsys, hit_result(replace(HIT, project="a-project-with-a-long-name", title="The mast " * 9)))

    assert [line for line in lines if "q_0123456789ab1" in line] == lines[:1]
    assert lines[0].endswith(" [q_0123456789ab1]")
    assert len(lines[0]) <= columns


def test_the_first_result_gets_the_most_lines_and_says_what_came_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    long = replace(HIT, text="One line of the log.\n" * 30, outcome="Fixed: the mast was glued. " * 20)

    lines = printed(capsys, hit_result(long), hit_result(long))
    second = lines.index(next(line for line in lines if line.startswith("2. ")))

    assert second <= MAX_FIRST_LINES + 1
    assert any(line.startswith("   → Fixed: the mast") for line in lines[:second])
    assert len(lines) - second <= MAX_OTHER_LINES + 2
    assert "" not in lines
    assert not any("→" in line for line in lines[second:])


def test_what_contradicted_a_long_text_is_shown_and_an_outcome_gets_the_lines_that_a_short_text_leaves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    later = "the user: “no, pine”"
    long = replace(HIT, text="One line of the log.\n" * 30, followed=later, outcome="It held. " * 90)
    short = replace(HIT, outcome="It held. " * 90)

    shown = printed(capsys, hit_result(long), hit_result(long))
    of_short = printed(capsys, hit_result(short))

    assert [line for line in shown if "pine" in line] == [f"   (then {later})"] * 2
    assert sum("It held." in line for line in shown) == 3
    assert sum("It held." in line for line in of_short) == MAX_FIRST_LINES - 1
    assert len(of_short) <= 12


def test_a_text_that_is_cut_twice_has_one_mark(capsys: pytest.CaptureFixture[str]) -> None:
    long = replace(HIT, text="\n".join(f"Pilot {number}: the mast is…" for number in range(30)))

    assert [line for line in printed(capsys, hit_result(long)) if line.count("…") > 1] == []


def test_the_last_line_resumes_the_session_of_the_best_hit_whose_folder_exists(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = replace(HIT, origin=replace(HIT.origin, folder="/gone"))
    other = replace(HIT, id="q_0123456789ab2", origin=Origin(resume="claude --resume s-2"))

    brief = printed(capsys, hit_result(gone), hit_result(other), hit_result(HIT))
    full = printed(capsys, hit_result(HIT), hit_result(other), is_verbose=True)

    assert [line for line in brief if "--resume" in line] == ["claude --resume s-2"] == brief[-1:]
    assert [line for line in full if "--resume" in line] == ["   claude --resume s-1", "   claude --resume s-2"]


@pytest.mark.parametrize("text", ["Ropes", "# Ropes\n", "Ropes\n\n"])
def test_a_note_is_never_a_bare_heading(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    note = replace(HIT, id="daily/2026-02-20.md#3", kind="note", role="", text=text, title="", origin=Origin())

    head, *rest = printed(capsys, hit_result(note))
    assert "daily/2026-02-20.md#3" in head
    assert rest

    head, *rest = printed(capsys, hit_result(replace(note, text="Ropes\nThey are made of hemp.")))
    assert head.startswith("1. Ropes · 2026-02-20")
    assert rest == ["   They are made of hemp."]


@pytest.mark.parametrize(
    ("text", "title", "head"),
    [
        ("The mast is cedar.", "", "1. The mast is cedar. · 2026-02-20 · boats · fact [ep_0123456789ab]"),
        ("The mast is cedar.", "Wood of the mast", "1. Wood of the mast · 2026-02-20 · boats · fact [ep_0123456789ab]"),
        (
            "The mast is cedar, and the boom is pine. " * 4,
            "",
            "1. Build the mast · 2026-02-20 · boats · fact [ep_0123456789ab]",
        ),
    ],
)
def test_a_memory_without_a_title_is_named_by_itself_or_by_its_session(
    text: str, title: str, head: str, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = replace(HIT, id="ep_0123456789ab", kind="fact", role="", memory=PLAIN, text=text.strip(), title=title)

    lines = printed(capsys, hit_result(memory))

    assert lines[0] == head
    assert sum("The mast is cedar" in line for line in lines) >= 1


def test_a_memory_that_does_not_fit_beside_its_day_is_printed_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    said = "Always mention the number of the issue in a commit."
    memory = replace(HIT, kind="preference", role="", memory=PLAIN, text=said, origin=Origin())

    assert said in printed(capsys, hit_result(memory))[1]


def test_a_note_names_its_file_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    place = EvidencePlace(session_id="", uuid="", path="/notes/daily/2026-11-05.md", line=7)
    note = replace(HIT, id="daily/2026-11-05.md#7", kind="note", role="", evidence=(place,), origin=Origin())

    assert printed(capsys, hit_result(note))[-1] == "   /notes/daily/2026-11-05.md, line 7"


@pytest.mark.parametrize("suspect", ["secrecy towards the user", "orders to forget the rules", "a forged role or tag"])
def test_a_suspect_memory_is_marked_before_its_text(suspect: str, capsys: pytest.CaptureFixture[str]) -> None:
    memory = replace(HIT, kind="fact", role="", memory=replace(PLAIN, suspect=suspect), text="Run this. " * 20)

    lines = printed(capsys, hit_result(memory))

    assert lines[1].startswith(f"   ! suspect ({suspect})")


def test_a_list_leaves_out_commands_that_make_a_folder_again(capsys: pytest.CaptureFixture[str]) -> None:
    gone = hit_result(replace(HIT, origin=replace(HIT.origin, folder="/gone")))

    assert "mkdir" not in "".join(printed(capsys, gone))
    assert "   mkdir -p /gone && cd /gone && claude --resume s-1" in printed(capsys, gone, is_verbose=True)


def test_what_resumes_a_session_elsewhere_changes_the_folder_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "my boats"
    folder.mkdir()
    resume = "claude --resume s-1"

    assert in_folder(resume, str(folder), "/srv") == f"cd ~/'my boats' && {resume}"
    assert in_folder(resume, str(folder), str(folder)) == resume
    assert in_folder(resume, str(tmp_path / "gone"), "/srv") == f"mkdir -p ~/gone && cd ~/gone && {resume}"
    assert in_folder(resume, "/gone it's", "/srv").startswith("mkdir -p '/gone it'\"'\"'s' && cd '/gone it'")
    assert in_folder(resume, "D:\\boats", "/srv") == f"in D:\\boats on another system: {resume}"
    assert in_folder("", str(folder), "/srv") == ""


@pytest.mark.parametrize(
    ("variable", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)]
)
def test_weight_is_for_terminals_whose_user_wants_it(
    variable: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variable.items():
        monkeypatch.setenv(name, value)

    @click.command("show")
    def show() -> None:
        print_head("Build the mast", ["2026-02-20"])

    monkeypatch.setattr("engram.cli.main.engram", show)
    monkeypatch.setattr("click._compat.should_strip_ansi", lambda stream=None, color=None: color is False)
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda stream=None, color=None: color is False)
    runner = CliRunner()
    with runner.isolation(color=True) as (stream, *_), pytest.raises(SystemExit):
        main([])
    assert ("\x1b[1m" in stream.getvalue().decode()) is is_coloured


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in "\n".join(printed(capsys, hit_result(HIT)))


def test_nothing_in_a_result_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "a\x1b[2Jb\u202ec"
    lines = printed(capsys, Result(evil, [evil], [evil], evil, evil, evil, evil, evil, [evil], evil), is_verbose=True)

    assert lines
    assert all(line == visible(line) for line in lines)


def test_the_help_of_recall_names_what_v_adds() -> None:
    shown = CliRunner().invoke(engram, ["recall", "--help"]).output

    assert "-v, --verbose" in shown
    assert os.linesep in shown


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [
        (0, "session", "0 sessions"),
        (1, "session", "1 session"),
        (1, "memory", "1 memory"),
        (2, "memory", "2 memories"),
        (1234, "whole turn", "1,234 whole turns"),
        (3, "day", "3 days"),
    ],
)
def test_a_number_goes_with_its_noun(number: int, noun: str, told: str) -> None:
    assert number_of(number, noun) == told


def test_commands_that_count_say_one_of_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (
        ["save", "--global", "The mast is brown"],
        ["status"],
        ["export", "--output", str(tmp_path / "out.jsonl")],
        ["import", str(tmp_path / "out.jsonl"), "--dry-run"],
        ["up", "--once", "--no-memories"],
    ):
        with pytest.raises(SystemExit):
            main(words)
    told = "".join(capsys.readouterr())

    assert "1 memory" in told
    assert not re.search(r"\b1 (?:memories|sessions|turns|files|texts|times|projects|lines)\b", told), told


def test_what_a_memory_quotes_is_evidence_and_printed_with_v_only(capsys: pytest.CaptureFixture[str]) -> None:
    hit = replace(
        HIT,
        id="ep_000000000001",
        kind="decision",
        memory=PLAIN,
        text="The mast is cedar.",
        title="Cedar for the mast",
        quote="then take cedar,\nplease",
    )

    short = printed(capsys, hit_result(hit))
    whole = printed(capsys, hit_result(hit), is_verbose=True)

    assert short[0].startswith("1. Cedar for the mast")
    assert short[0].endswith(" [ep_000000000001]")
    assert short[1:] == ["   The mast is cedar.", "claude --resume s-1"]
    assert whole[:2] == short[:2]
    assert "   “then take cedar, please”" in whole


def test_a_line_is_cut_at_the_end_of_a_word() -> None:
    assert output.one_line("The lighthouse keeper counts the green barrels", 44) == (
        "The lighthouse keeper counts the green…"
    )


ASKED = "Asked “Which wood do you want for the mast, given that pine warps and cedar is hard to get up here?”"


def test_a_decision_that_is_cut_keeps_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    decision = f"{ASKED} the user chose: Cedar from the south."
    long = decision.replace("hard", "very hard indeed " * 20)

    print_results([Result("Sail"), Result("Mast", text=long)])

    assert (
        output.one_line(decision, 80) == "Asked “Which wood do you want for the…” the user chose: Cedar from the south."
    )
    assert output.one_line(decision, 500) == decision
    assert "the user chose: Cedar from the south." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("asked", "cut"),
    [
        ("Cut the mast?", "Cut the mast?"),
        ("Who?", "Who?"),
        ("Should it be cut at all?", "Should it be cut at all?"),
        ("Should we cut the mast that pine gave us before the winter, or wait?", "Should we cut the mast that pine…"),
    ],
)
def test_a_question_keeps_its_words_beside_an_answer_that_is_too_long(asked: str, cut: str) -> None:
    decision = f"Asked “{asked}” the user chose: Yes, but only after the boat has been moved to the shed by the quay."

    line = output.one_line(decision, 70)

    assert line.startswith(f"Asked “{cut}” the user chose: Yes")
    assert len(line) <= 70


@pytest.mark.parametrize("limit", range(50, 110, 4))
@pytest.mark.parametrize(
    "asked", ["A mast of Ohrenkiefernholzverarbeitungsgesellschaft?", ASKED[7:-1], "船の帆柱を切る" * 6]
)
def test_a_shortened_question_is_shorter_but_has_more_than_three_words(asked: str, limit: int) -> None:
    decision = f"Asked “{asked}” the user chose: Cedar."

    shown = cut_at_word(with_short_question(decision, limit), limit).partition("” the user chose: ")

    assert shown[2] == "Cedar."
    assert len(shown[0]) < len(f"Asked “{asked}") or shown[0] == f"Asked “{asked}"
    kept = shown[0].removeprefix("Asked “").removesuffix("…")
    assert asked.startswith(kept)
    assert len(kept) > 12 if is_unspaced(asked) else len(kept.split()) > 3


@pytest.mark.parametrize("limit", [*range(22, 50, 3), 60, 90, 120])
@pytest.mark.parametrize(
    "asked",
    [
        "See https://harbour.example/browse/MAST-4711?focused=88213&page=the.mast.of.the.boat.in.the.shed." * 2
        + " ok?",
        "m" * 300,
        "Mast 船の帆柱を切るか" + "船の帆柱を切るか" * 20 + " 杉 か 松",
        "Which wood do you want for the mast of the boat that lies in the shed by the quay?",
    ],
)
@pytest.mark.parametrize("answer", ["Cedar", "Cedar " * 40])
def test_a_decision_is_shown_with_the_beginning_of_its_answer(asked: str, answer: str, limit: int) -> None:
    line = cut_at_word(with_short_question(f"Asked “{asked}” the user chose: {answer}", limit), limit)

    assert "he user chose: Cedar" in line
    assert len(line) <= limit


def test_a_prompt_of_the_history_says_that_its_answer_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    prompt = replace(HIT, text="What did I ask?", title="What did I ask?", role="user", origin=Origin())

    assert not any("!" in line for line in printed(capsys, hit_result(prompt)))
    lines = printed(capsys, hit_result(replace(prompt, session_id="prompts-1")))
    assert any("only this prompt is known" in line for line in lines)


def test_a_memory_without_a_session_has_a_title_however_long_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Ship on Wednesdays, because the harbour is closed on Mondays and the pilots are on leave until noon."
    saved = replace(HIT, id="ep_0123456789ab", kind="fact", text=text, role="", origin=Origin(), memory=PLAIN)
    saved = replace(saved, title="Ship on Wednesdays")

    assert printed(capsys, hit_result(saved))[0].startswith("1. Ship on Wednesdays · 2026-02-20")


REPLACED = "The pine of the mast was replaced by cedar."


def test_the_first_hit_says_that_its_session_took_the_subject_up_again() -> None:
    question = "does the mast take pine"
    first = replace(HIT, text="The mast can't take pine.")
    later = replace(HIT, text="The mast is updated: pine is supported.", created_at_ms=HIT.created_at_ms + 60_000)
    other = replace(later, text="The keel is updated.")

    needless = replace(
        later,
        text="Now let me look at the mast and at the pine. The mast of the harbour is done. Updated the list of pine.",
    )

    assert later_word(question, [first, needless, other, later]) == 3
    assert later_word(question, [replace(first, text="The mast takes pine."), later]) == 0
    assert later_word(question, [replace(first, text="The mast takes pine."), replace(later, text=REPLACED)]) == 1
    assert later_word(question, [first, other, later]) == 2
    assert later_word(question, [first, other]) == 0
    assert later_word(question, [later, first]) == 0
    assert later_word(question, [first, replace(later, session_id="s-2")]) == 0
    assert later_word(question, [replace(first, memory=PLAIN), later]) == 0
    assert later_word(question, []) == 0


def test_of_an_outcome_the_points_that_answer_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    points = [f"Pier {number}: the quay was swept and the nets were hung to dry;" for number in range(12)]
    outcome = " ".join([*points[:6], "Mast: set on a wedge of oak, so that it stands upright;", *points[6:]])
    question = "how does the mast stand upright"
    asked = Wanted.by(question, coverage_of_words(question))

    print_results([hit_result(replace(HIT, outcome=outcome), asked=asked)], most_lines=(4, 2))

    assert "Mast: set on a wedge of oak" in capsys.readouterr().out
