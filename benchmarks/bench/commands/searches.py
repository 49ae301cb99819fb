"""``python -m bench``: measure the quality and speed of the search, and how useful the memory is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bench.commands.agents import tasks
from bench.commands.homes import FILE, FOLDER, open_bench_homes
from bench.commands.readers import qa
from engram.cli.options import Command, json_option
from engram.cli.output import print_json, print_table
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import EngramError


class _Bench(click.Group):
    """A group of commands that shows each expected error in one line."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Expected failures become one line and exit code 1."""
        try:
            return super().invoke(ctx)
        except EngramError as error:
            raise click.ClickException(str(error)) from error


@click.group("bench", cls=_Bench)
def bench() -> None:
    """Measure the search on LoCoMo, LongMemEval and questions about coding sessions, and its speed; and whether the
    results help readers (qa) and agents (tasks).

    Every benchmark takes the real path (turns or transcripts in, search results out) in a temporary memory. Your own
    memory is not touched.

    Example: python -m bench locomo --data locomo10.json
    """


bench.add_command(qa)
bench.add_command(tasks)


def _common(command: Command) -> Command:
    for option in (
        json_option,
        click.option(
            "--run",
            "run_file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            default=None,
            help="Write every hit to this file, a JSON line for each question (default: not written).",
        ),
        click.option("--no-model", is_flag=True, help="Use text only, without the embedding model (default: with it)."),
        click.option(
            "--keep",
            type=click.Path(path_type=Path),
            metavar="DIR",
            default=None,
            help="Keep the memories in this folder and reuse them (default: a temporary folder).",
        ),
    ):
        command = option(command)
    return command


@bench.command("locomo")
@click.option("--data", required=True, type=FILE, metavar="FILE", help="LoCoMo's JSON file (no default).")
@click.option(
    "--published",
    type=FILE,
    metavar="FILE",
    default=None,
    help="Published scores to show for comparison (default: none).",
)
@click.option("--ablation", is_flag=True, help="Also leave out each step of the ranking in turn (default: no).")
@_common
@pass_workspace
def locomo(
    workspace: Workspace,
    data: Path,
    published: Path | None,
    ablation: bool,
    as_json: bool,
    run_file: Path | None,
    no_model: bool,
    keep: Path | None,
) -> None:
    """Run LoCoMo, categories 1 to 4. One dialogue turn is one unit.

    Example: python -m bench locomo --data locomo10.json --no-model
    """
    from bench.commands.report import published_rows, report
    from bench.datasets import read_locomo
    from bench.runs import run_chats

    with open_bench_homes(workspace, no_model=no_model, keep=keep) as homes:
        runs = run_chats(homes, read_locomo(data), ablation=ablation)
    report("LoCoMo", runs, as_json=as_json, run_file=run_file, more={"published": published_rows(published)})


@bench.command("longmemeval")
@click.option("--data", required=True, type=FILE, metavar="FILE", help="LongMemEval's JSON file (no default).")
@_common
@pass_workspace
def longmemeval(
    workspace: Workspace, data: Path, as_json: bool, run_file: Path | None, no_model: bool, keep: Path | None
) -> None:
    """Run LongMemEval; every question has its own history. One turn is one unit.

    Example: python -m bench longmemeval --data longmemeval_s.json
    """
    from bench.commands.report import report
    from bench.datasets import read_longmemeval
    from bench.runs import run_chats

    with open_bench_homes(workspace, no_model=no_model, keep=keep) as homes:
        runs = run_chats(homes, read_longmemeval(data))
    report("LongMemEval", runs, as_json=as_json, run_file=run_file)


@bench.command("code")
@click.option(
    "--corpus",
    required=True,
    type=FOLDER,
    metavar="DIR",
    help="Folder with one Claude configuration folder for each project (no default).",
)
@click.option("--questions", required=True, type=FILE, metavar="FILE", help="Questions, as JSON lines (no default).")
@click.option(
    "--prompts",
    type=FILE,
    metavar="FILE",
    default=None,
    help="Prompts, as JSON lines; --run then gets what Engram would inject for them (default: none).",
)
@click.option(
    "--memories",
    type=FILE,
    metavar="FILE",
    default=None,
    help="Gold memories, as JSON lines, to count the prompts that were served (default: none).",
)
@click.option(
    "--answers",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    default=None,
    help="Make the memories from a language model's recorded answers. Requests without an answer are written here, so "
    "that you can have them answered (default: the local extractor).",
)
@click.option(
    "--requests",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    default=None,
    help="Only write the next round of language model requests without an answer to this folder, as KEY.request.txt. "
    "Put each answer next to its request, as KEY.answer.json, and repeat until no request is written (default: none is "
    "written).",
)
@click.option(
    "--kept",
    type=click.Path(path_type=Path),
    metavar="FILE",
    default=None,
    help="With --answers: write every memory to this file, a JSON line each (default: not written).",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 200),
    default=40,
    show_default=True,
    metavar="N",
    help="Maximum number of hits for a question.",
)
@click.option("--ablation", is_flag=True, help="Also leave out each step of the ranking in turn (default: no).")
@_common
@pass_workspace
def code(
    workspace: Workspace,
    corpus: Path,
    questions: Path,
    prompts: Path | None,
    memories: Path | None,
    answers: Path | None,
    requests: Path | None,
    kept: Path | None,
    limit: int,
    ablation: bool,
    as_json: bool,
    run_file: Path | None,
    no_model: bool,
    keep: Path | None,
) -> None:
    """Answer questions about coding sessions with `engram search`. --prompts measures what the hook would inject;
    --answers uses memories made from a language model's recorded answers.

    Example: python -m bench code --corpus corpus --questions questions.jsonl --run run.jsonl
    """
    from bench import runs as bench_runs
    from bench.commands.report import report
    from bench.json_lines import write_lines

    if requests is not None:
        from bench.answers import write_requests

        with open_bench_homes(workspace, no_model=True, keep=keep) as homes:
            _report_figures("Code requests", write_requests(homes, corpus, questions, requests), as_json)
        return
    with open_bench_homes(workspace, no_model=no_model, keep=keep) as homes:
        if answers is not None:
            from bench.answers import run_answers

            lines, memory_lines, figures = run_answers(homes, corpus, questions, answers, prompts=prompts)
            if kept is not None:
                write_lines(kept, memory_lines)
        elif prompts is not None:
            lines, figures = bench_runs.run_prompts(homes, corpus, prompts), {}
        else:
            runs = bench_runs.run_code(homes, corpus, questions, limit=limit, ablation=ablation)
            report("Code", runs, as_json=as_json, run_file=run_file, more=bench_runs.paired(runs))
            return
    if prompts is not None:
        figures |= bench_runs.count_prompts(lines, prompts, memories)
        if run_file is not None:
            write_lines(run_file, lines)
    _report_figures("Code prompts" if answers is None else "Code answers", figures, as_json)


@bench.command("speed")
@click.option(
    "--turns",
    type=click.IntRange(10, 2_000_000),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Turns (and memories) in the temporary memory.",
)
@click.option(
    "--queries",
    type=click.IntRange(5, 10_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Number of searches to time.",
)
@json_option
@pass_workspace
def speed(workspace: Workspace, turns: int, queries: int, as_json: bool) -> None:
    """Measure the time of a search, a new turn and a cold start, with synthetic turns and vectors.

    Example: python -m bench speed --turns 100000
    """
    from bench.speed import run_speed

    with open_bench_homes(workspace, no_model=False, keep=None) as homes:
        figures = run_speed(homes, turns, queries)
    if as_json:
        print_json(figures)
        return
    print_table(["what", "ms#"], _flat(figures), empty="")


def _flat(figures: dict[str, Any]) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for name, value in figures.items():
        rows += [(f"{name} {key}", part) for key, part in value.items()] if isinstance(value, dict) else [(name, value)]
    return rows


def _report_figures(name: str, figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"bench": name, **figures})
        return
    printer: Callable[[str], None] = click.echo
    for label, value in figures.items():
        printer(f"{label}: {value}")
