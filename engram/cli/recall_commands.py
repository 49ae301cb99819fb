"""``engram recall`` and ``engram search``: ranked memories, and turns and notes word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engram.cli.options import Command, json_option, project_option
from engram.cli.output import one_line, print_json, safe, say
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.errors import BadRequest
from engram.search.episodes.standing import standing_of

if TYPE_CHECKING:
    from engram.cli.recall_client import Answer

#: Characters of a hit that a person is shown.
_SHOWN_CHARACTERS = 600
#: Characters of what is said about a hit that no longer stands.
_STANDING_CHARACTERS = 160


def _options(command: Command) -> Command:
    """The options that both share."""
    limit = click.option(
        "--limit", type=click.IntRange(1, 1000), default=None, metavar="N", help="Most hits (default: recall_limit, 5)."
    )
    explain = click.option("--explain", is_flag=True, help="Show the parts of every score (default: the score alone).")
    return limit(explain(project_option(json_option(command))))


@click.command("recall")
@click.argument("query")
@_options
@pass_workspace
def recall(
    workspace: Workspace, query: str, project: str | None, limit: int | None, explain: bool, as_json: bool
) -> None:
    """Find memories for a question, the best first, with the entries of the transcripts that they rest on.

    Asks the running worker; without one it loads the compiled model, and without that it searches by text alone.

    Example: engram recall "why did we leave SQLite" --project harbor --explain
    """
    _run(workspace, "recall", query, project, limit, explain, as_json)


@click.command("search")
@click.argument("query")
@_options
@pass_workspace
def search(
    workspace: Workspace, query: str, project: str | None, limit: int | None, explain: bool, as_json: bool
) -> None:
    """Find what was said, word for word, in turns and notes, the best first.

    Example: engram search "INSERT OR IGNORE" --limit 3
    """
    _run(workspace, "search", query, project, limit, explain, as_json)


def _run(
    workspace: Workspace, operation: str, query: str, project: str | None, limit: int | None, explain: bool,
    as_json: bool,
) -> None:  # fmt: skip
    if not query.strip():
        raise BadRequest("the question is empty: say what to look for in a few words")
    # Not above: it loads the search, which the help of other commands does not need.
    from engram.cli.recall_client import ask

    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        answer = ask(workspace, store, operation, query, place, limit or workspace.settings.recall_limit)
    if as_json:
        print_json({"hits": answer.hits, "by": answer.by, "note": answer.note or None})
        return
    _print(answer, explain)


def _print(answer: Answer, explain: bool) -> None:
    if answer.hits and all(hit.get("doubtful") for hit in answer.hits):
        click.echo("Nothing comes near to this question; the nearest:")
    for number, hit in enumerate(answer.hits, 1):
        _print_hit(number, hit, explain)
    if not answer.hits:
        click.echo("Nothing was found.")
    if answer.note:
        say(f"({answer.note})", err=True)


def _print_hit(number: int, hit: dict[str, Any], explain: bool) -> None:
    scope = "global" if hit.get("scope") == "global" else ""
    named = (hit.get("kind"), hit.get("project") or "no project", scope, hit.get("created_at"))
    about = ", ".join(one_line(str(one), 200) for one in named if one)
    say(f"[{number}] {one_line(str(hit['id']), 300)}  ({about})  {hit['score']:.3f}", bold=True)
    if standing := standing_of(hit):
        say(f"    ! {one_line(standing, _STANDING_CHARACTERS)}", fg="yellow")
    text = str(hit.get("summary") or hit.get("text") or "")
    shown = one_line(text, _SHOWN_CHARACTERS) if "summary" in hit else safe(text[:_SHOWN_CHARACTERS])
    click.echo("    " + shown.replace("\n", "\n    "))
    if explain:
        click.echo("    = " + " + ".join(f"{name} {value:.3f}" for name, value in hit["parts"].items()))
    for place in hit["evidence"][:3]:
        if place["path"]:
            say(f"    {one_line(place['path'], 4096)}:{place['line']}  {place['uuid']}")
