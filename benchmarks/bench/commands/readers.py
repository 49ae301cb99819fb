"""``python -m bench qa``: write the texts that readers get for each question, and score their answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.commands.homes import FILE, FOLDER, NEW_FOLDER, open_bench_homes
from engram.cli.options import json_option
from engram.cli.output import print_json, print_table
from engram.cli.workspace import Workspace, pass_workspace

if TYPE_CHECKING:
    from bench.qa.folder import RunKey


@click.command("qa")
@click.option(
    "--write", type=NEW_FOLDER, metavar="DIR", default=None, help="Write a new run to this folder (default: none)."
)
@click.option("--corpus", type=FOLDER, metavar="DIR", default=None, help="With --write: the sessions (no default).")
@click.option(
    "--questions", type=FILE, metavar="FILE", default=None, help="With --write: questions, as JSON lines (no default)."
)
@click.option(
    "--memories",
    type=FILE,
    metavar="FILE",
    default=None,
    help="With --write: gold memories, as JSON lines (no default).",
)
@click.option(
    "--recorded",
    type=NEW_FOLDER,
    metavar="DIR",
    default=None,
    help="With --write: a language model's recorded answers, which make the memories (no default).",
)
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="WAY:WORDS",
    help="With --write, repeatable: recall, search, both, gold, rules or fts5, and a number of words; or "
    "NAME=FILE:WORDS for what another program answered (default: recall:150 gold:150 both:400 search:800 fts5:800).",
)
@click.option(
    "--hide",
    "hidden",
    multiple=True,
    metavar="WORD",
    help="With --write, repeatable: a word that names the program in the texts of a file (default: none).",
)
@click.option(
    "--beside",
    type=FOLDER,
    metavar="DIR",
    default=None,
    help="With --write: a recorded run; its questions are asked, and its readers' answers are judged with the new ones "
    "(default: none).",
)
@click.option(
    "--answerable",
    type=click.IntRange(0),
    default=70,
    show_default=True,
    metavar="N",
    help="With --write: how many questions with an answer are sampled.",
)
@click.option(
    "--unanswerable",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="With --write: how many questions without an answer are sampled.",
)
@click.option("--seed", type=int, default=14, show_default=True, metavar="N", help="With --write: seed for sampling.")
@click.option("--no-model", is_flag=True, help="With --write: without the embedding model (default: with it).")
@click.option(
    "--keep",
    type=NEW_FOLDER,
    metavar="DIR",
    default=None,
    help="With --write: keep the memories in this folder (default: a temporary folder).",
)
@click.option(
    "--answers",
    type=FOLDER,
    metavar="DIR",
    default=None,
    help="Read the readers' answers of this run; without scores, write the judge's folder (default: none).",
)
@click.option(
    "--scores",
    type=FILE,
    metavar="FILE",
    default=None,
    help="With --answers: the judge's verdicts (default: judge/scores.jsonl of the run, if it is there).",
)
@click.option(
    "--record",
    type=NEW_FOLDER,
    metavar="DIR",
    default=None,
    help="With --answers: store answers and verdicts here, without the readers' texts (default: not stored).",
)
@click.option("--model", default="", help="With --record: the model that read and judged (default: not recorded).")
@click.option("--date", default="", help="With --record: the date, such as 2026-11-22 (default: not recorded).")
@json_option
@pass_workspace
def qa(
    workspace: Workspace,
    write: Path | None,
    corpus: Path | None,
    questions: Path | None,
    memories: Path | None,
    recorded: Path | None,
    arms: tuple[str, ...],
    hidden: tuple[str, ...],
    beside: Path | None,
    answerable: int,
    unanswerable: int,
    seed: int,
    no_model: bool,
    keep: Path | None,
    answers: Path | None,
    scores: Path | None,
    record: Path | None,
    model: str,
    date: str,
    as_json: bool,
) -> None:
    """Measure whether a reader can answer from what Engram returns. First use --write, then let readers answer; after
    that, --answers prepares the judge's folder, and a second --answers prints the figures. docs/benchmarks.md describes
    the steps and the files.

    Example: python -m bench qa --answers benchmarks/answers/qa/2026-11-22
    """
    if (write is None) == (answers is None):
        raise click.UsageError("Specify either --write DIR or --answers DIR.")
    if answers is not None:
        _score(answers, scores, record, model, date, as_json)
        return
    from bench.qa.folder import RunKey, questions_of, write_run
    from bench.qa.questions import draw_questions, read_reader_questions
    from bench.qa.runs import DEFAULT_ARMS, Arm, GivenTexts
    from bench.recorded_provider import RecordedProvider

    chosen = [Arm.parse(text) for text in arms or DEFAULT_ARMS]
    own = [arm for arm in chosen if arm.file is None]
    if write is None or questions is None or (own and (corpus is None or recorded is None)):
        raise click.UsageError("--write requires --questions, and --corpus and --recorded unless all arms are files.")
    known = read_reader_questions(questions)
    if beside is None:
        drawn = draw_questions(known, answerable=answerable, unanswerable=unanswerable, seed=seed)
    else:
        drawn = questions_of(RunKey.read(beside), known)
    given = {arm.name: arm.texts_of_file(drawn, hidden) for arm in chosen if arm.file is not None}
    requests: dict[str, Any] = {}
    if own and corpus is not None and recorded is not None:
        with open_bench_homes(workspace, no_model=no_model, keep=keep) as homes:
            texts, requests = GivenTexts(homes, corpus, RecordedProvider(recorded), memories).collect(drawn, own)
        given |= texts
    key = write_run(write, drawn, given, seed, beside)
    new = [number for number, arm in key.readers.items() if arm in given]
    _report_written(write, key, new, requests, as_json)


def _report_written(folder: Path, key: RunKey, new: Sequence[str], requests: dict[str, Any], as_json: bool) -> None:
    figures = {"questions": len(key.questions), "words": dict(key.words), **requests}
    if as_json:
        print_json({"bench": "qa", "folder": str(folder), "readers": dict(key.readers), **figures})
        return
    for label, value in figures.items():
        click.echo(f"{label}: {value}")
    sheets = " and ".join(str(folder / "readers" / number) for number in new)
    click.echo(f"\nGive {sheets} each to a fresh reader, and nothing else of {folder}.")
    click.echo(f"Then run `python -m bench qa --answers {folder}`.")


def _score(folder: Path, scores: Path | None, record: Path | None, model: str, date: str, as_json: bool) -> None:
    from bench.qa.figures import qa_figures, verdicts_of
    from bench.qa.folder import RunKey, read_answers, read_scores, record_run, write_judge

    key = RunKey.read(folder)
    key = dataclasses.replace(key, model=model or key.model, date=date or key.date)
    answers = read_answers(folder, key)
    if scores is None and (folder / "judge" / "scores.jsonl").exists():
        scores = folder / "judge" / "scores.jsonl"
    if scores is None:
        count = write_judge(folder, key, answers)
        judge = folder / "judge"
        if as_json:
            print_json({"bench": "qa", "judge": str(judge), "answers": count})
            return
        click.echo(f"Give {judge} to a fresh judge, who reads {count} answers and nothing else of {folder}.")
        click.echo("Then run the same command again.")
        return
    figures = qa_figures(key, verdicts_of(key, answers, read_scores(scores)))
    if record is not None:
        record_run(folder, scores, record, key)
    if as_json:
        print_json({"bench": "qa", **figures})
        return
    _print_figures(figures)


def _print_figures(figures: dict[str, Any]) -> None:
    about = ", ".join(part for part in (figures["model"], figures["date"]) if part)
    click.echo(
        f"{figures['questions']} questions with an answer, {figures['unanswerable']} without"
        + (f" ({about})" if about else "")
    )
    print_table(
        ["arm", "words#", "right %#", "wrong %#", "unanswered %#", "without an answer, left unanswered#"],
        [
            (
                arm,
                row["words"],
                f"{row['right']} ± {row['interval']}",
                row["wrong"],
                row["unanswered"],
                f"{row['unanswerable left unanswered']} of {figures['unanswerable']}",
            )
            for arm, row in sorted(figures["arms"].items())
        ],
        empty="",
    )
    click.echo("\nPaired differences in right answers, in points, with 95 % intervals:")
    print_table(
        ["arms", "difference#", "from#", "to#", "p#"],
        [(pair, f"{d['difference']:+}", d["low"], d["high"], d["p"]) for pair, d in figures["paired"].items() if d],
        empty="There is one arm only.",
    )
