"""``python -m bench tasks``: test whether memory helps an agent with its work."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.commands.homes import FOLDER, NEW_FOLDER
from engram.cli.options import json_option
from engram.cli.output import print_json, print_table

if TYPE_CHECKING:
    from bench.tasks.arms import ArmMemories
    from bench.tasks.figures import RunResult
    from bench.tasks.runs import RunPlan
    from bench.tasks.task import Task


@click.command("tasks")
@click.argument("folder", type=FOLDER)
@click.option(
    "--agent",
    metavar="COMMAND",
    default=None,
    help="Run this agent in each workspace; {prompt_file} and {workspace} are replaced, and its standard input is the "
    "prompt (no default).",
)
@click.option(
    "--prepare",
    type=NEW_FOLDER,
    metavar="DIR",
    default=None,
    help="Write the folder of every run, to be carried out by people or other agents (default: not written).",
)
@click.option(
    "--check", type=FOLDER, metavar="DIR", default=None, help="Check the runs of --prepare (default: no check)."
)
@click.option(
    "--arm",
    "arms",
    multiple=True,
    type=click.Choice(["nothing", "own", "fts5", "rules", "scribe", "gold"]),
    help="Only this arm; repeatable (default: all).",
)
@click.option("--task", "names", multiple=True, metavar="NAME", help="Only this task; repeatable (default: all).")
@click.option(
    "--runs",
    "count",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    metavar="N",
    help="Runs of each task in each arm.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 86_400),
    default=900,
    show_default=True,
    metavar="SECONDS",
    help="Time of one run of the agent.",
)
@click.option(
    "--answers",
    type=NEW_FOLDER,
    metavar="DIR",
    default=None,
    help="Recorded answers of a language model, a folder for each task. Missing requests are written there to be "
    "answered (default: the answers that belong to the tasks).",
)
@click.option("--keep-home", is_flag=True, help="Leave the agent its HOME, for its login (default: an empty one).")
@click.option("--seed", type=int, default=14, show_default=True, metavar="N", help="Shuffles the runs.")
@click.option("--no-model", is_flag=True, help="Use text only, without the embedding model (default: with it).")
@json_option
def tasks(
    folder: Path,
    agent: str | None,
    prepare: Path | None,
    check: Path | None,
    arms: tuple[str, ...],
    names: tuple[str, ...],
    count: int,
    timeout: float,
    answers: Path | None,
    keep_home: bool,
    seed: int,
    no_model: bool,
    as_json: bool,
) -> None:
    """Run tasks that are answered in earlier sessions, in arms with different memories, and report what was solved.

    FOLDER contains a folder for each task. Every run has a fresh workspace, home and memory. docs/benchmarks.md
    describes the files. Specify one of --agent, --prepare and --check.

    Example: python -m bench tasks benchmarks/tasks --agent 'claude -p --output-format json' --runs 1
    """
    from bench.tasks.arms import Arm
    from bench.tasks.runs import RunPlan
    from bench.tasks.task import read_tasks

    if sum(given is not None for given in (agent, prepare, check)) != 1:
        raise click.UsageError("Specify one of --agent COMMAND, --prepare DIR and --check DIR.")
    found = read_tasks(folder, names)
    if check is not None:
        plan = RunPlan.read(check)
        _report(_check_runs(found, plan), as_json)
        return
    chosen = [arm for arm in Arm if not arms or arm in arms]
    with contextlib.ExitStack() as stack:
        memories = _open_memories(stack, answers, no_model)
        if prepare is not None:
            plan = RunPlan.make(prepare, found, chosen, count, seed)
            _prepare(plan, found, memories, with_model=not no_model)
            if as_json:
                print_json({"bench": "tasks", "folder": str(prepare), "runs": len(plan.runs)})
            else:
                click.echo(
                    f"{len(plan.runs)} runs are in {prepare}. Give an agent one run's folder, and its PROMPT.md."
                )
                click.echo(f"Then run `python -m bench tasks {folder} --check {prepare}`.")
        else:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engram-tasks-")))
            plan = RunPlan.make(place, found, chosen, count, seed)
            _report(_run_all(plan, found, memories, agent or "", timeout, keep_home, not no_model), as_json)


def _open_memories(stack: contextlib.ExitStack, answers: Path | None, no_model: bool) -> ArmMemories:
    from bench.homes import load_settings_embedder
    from bench.tasks.arms import ArmMemories
    from engram.settings import Settings

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engram-arms-")))
    settings = Settings(home=folder)
    embedder = None if no_model else load_settings_embedder(settings)
    return ArmMemories(folder, settings, embedder, None if answers is None else answers.absolute())


def _prepare(plan: RunPlan, tasks: Sequence[Task], memories: ArmMemories, *, with_model: bool) -> None:
    from bench.tasks.runs import prepare_run

    _make_memories(plan, tasks, memories)
    by_name = {task.name: task for task in tasks}
    for run in plan.runs:
        prepare_run(run, by_name[run.task], memories, with_model=with_model)
    plan.write_key()


def _make_memories(plan: RunPlan, tasks: Sequence[Task], memories: ArmMemories) -> None:
    """Make the memories of every task and arm, so that missing answers are reported before anything runs."""
    from bench.recorded_provider import Unanswered
    from engram.errors import BadRequest

    missing = []
    for task in tasks:
        for arm in sorted({run.arm for run in plan.runs if run.task == task.name}):
            try:
                memories.get(task, arm)
            except Unanswered:
                missing.append(task.name)
        click.echo(f"{task.name}: the memories are made", err=True)
    if missing:
        raise BadRequest(
            f"{len(missing)} requests have no recorded answer ({', '.join(missing)}). They were written to the folder "
            "of --answers: write KEY.answer.json beside each KEY.request.txt, and run the command again"
        )


def _run_all(
    plan: RunPlan,
    tasks: Sequence[Task],
    memories: ArmMemories,
    agent: str,
    timeout: float,
    keep_home: bool,
    with_model: bool,
) -> list[RunResult]:
    from bench.tasks.agent import run_agent
    from bench.tasks.check import check_workspace
    from bench.tasks.figures import RunResult
    from bench.tasks.runs import prepare_run

    _make_memories(plan, tasks, memories)
    by_name = {task.name: task for task in tasks}
    results = []
    for place, run in enumerate(plan.runs, 1):
        task = by_name[run.task]
        prepare_run(run, task, memories, with_model=with_model)
        usage = run_agent(run, agent, seconds=timeout, keeps_home=keep_home)
        verdict = check_workspace(task, run.workspace)
        results.append(RunResult.of(run, task.kind, verdict, usage))
        click.echo(f"{place} of {len(plan.runs)}: {run.task}, {run.arm}: {verdict.outcome}", err=True)
        shutil.rmtree(run.folder, ignore_errors=True)
    return results


def _check_runs(tasks: Sequence[Task], plan: RunPlan) -> list[RunResult]:
    from bench.tasks.agent import read_usage
    from bench.tasks.check import check_workspace
    from bench.tasks.figures import RunResult

    by_name = {task.name: task for task in tasks}
    return [
        RunResult.of(run, by_name[run.task].kind, check_workspace(by_name[run.task], run.workspace), read_usage(run))
        for run in plan.runs
        if run.task in by_name
    ]


def _report(results: Sequence[RunResult], as_json: bool) -> None:
    from bench.tasks.figures import task_figures

    figures = task_figures(results)
    if as_json:
        print_json({"bench": "tasks", **figures, "runs": [result.to_json() for result in results]})
        return
    print_table(
        ["arm", "tasks solved#", "runs solved#", "misleading runs solved#", "harmed#", "tokens#", "seconds#"],
        [
            (
                arm,
                f"{row['tasks solved']} of {row['tasks']}",
                f"{row['runs solved']} of {row['runs of these tasks']}",
                f"{row['misleading runs solved']} of {row['misleading runs']}",
                row["harmed"],
                "–" if row["mean tokens"] is None else row["mean tokens"],
                "–" if row["mean seconds"] is None else row["mean seconds"],
            )
            for arm, row in figures["arms"].items()
        ],
        empty="There were no runs.",
    )
    _print_tasks(figures)


def _print_tasks(figures: dict[str, Any]) -> None:
    marks = {"solved": "+", "unsolved": "·", "harmed": "!"}
    arms = list(figures["arms"])
    click.echo("\nEach run: + solved, · not solved, ! harmed")
    print_table(
        ["task", *arms],
        [
            (task, *("".join(marks[outcome] for outcome in row[arm]) for arm in arms))
            for task, row in figures["tasks"].items()
        ],
        empty="",
    )
    for pair, difference in figures["paired"].items():
        if difference:
            interval = f"({difference['low']} to {difference['high']})"
            click.echo(f"Solved runs, {pair}: {difference['difference']:+} points {interval}")
