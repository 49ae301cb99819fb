"""``engram recall`` and ``engram search``: ranked memories, and verbatim turns and notes."""

from __future__ import annotations

import click

from engram.cli.options import Command, json_option, project_option
from engram.cli.output import one_line, print_json, say
from engram.cli.workspace import Workspace, current_folder, find_project, pass_workspace
from engram.errors import BadRequest
from engram.search.hit_lines import head_of, remarks_of, text_for_people
from engram.search.hits import PublicHit
from engram.search.question import MAX_HITS
from engram.transcripts.git_files import read_branch
from engram.worker.recall_client import Operation, RecallRequest, RecallResponse, ask_memory


def _options(command: Command) -> Command:
    """The options that both commands have."""
    limit = click.option(
        "-n",
        "--limit",
        type=click.IntRange(1, MAX_HITS),
        default=None,
        metavar="N",
        help="Maximum number of hits, whatever they are (default: recall_limit, 5; of recall that many memories).",
    )
    explain = click.option("--explain", is_flag=True, help="Show the parts of every score (default: the score only).")
    return limit(explain(project_option(json_option(command))))


@click.command("recall")
@click.argument("query")
@_options
@pass_workspace
def recall(
    workspace: Workspace, query: str, project: str | None, limit: int | None, explain: bool, as_json: bool
) -> None:
    """Find what answers a question: memories, best first, then passages that say more, 400 words in all.

    Between them stands what the best sessions were about, where a language model distilled them. If the question names
    a day, what was committed then comes before the passages. Below each hit stand its evidence in the transcripts and,
    as far as they are known, the command that resumes its session, its commit and its pull request.

    Asks the running worker. Without a worker the compiled model is loaded, and without that only text is searched.

    Example: engram recall "why did we leave SQLite" --project harbor --explain
    """
    _run(workspace, Operation.RECALL, query, project, limit, explain, as_json)


@click.command("search")
@click.argument("query")
@_options
@pass_workspace
def search(
    workspace: Workspace, query: str, project: str | None, limit: int | None, explain: bool, as_json: bool
) -> None:
    """Search turns and notes, word for word, best first.

    A phrase in quotes is found as it stands, in any case of letters. Where no text has the phrase, or all of the words
    together, that is said first, and the closest texts follow.

    Example: engram search '"INSERT OR IGNORE" outbox' --limit 3
    """
    _run(workspace, Operation.SEARCH, query, project, limit, explain, as_json)


def _run(
    workspace: Workspace,
    operation: Operation,
    query: str,
    project: str | None,
    limit: int | None,
    explain: bool,
    as_json: bool,
) -> None:
    if not query.strip():
        raise BadRequest("the query is empty: describe in a few words what to look for")

    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        request = RecallRequest(
            operation=operation,
            text=query,
            limit=limit or workspace.settings.recall_limit,
            project_id=None if place is None else place.id,
            branch=read_branch(current_folder()),
            max_hits=limit,
        )
        # The worker uses the settings of its start; flags of this call need a search in this process.
        with_worker = not set(workspace.flags) - {"home", "claude_folder"}
        answer = ask_memory(store, workspace.settings, request, with_worker=with_worker)
    if as_json:
        print_json(
            {
                "hits": [hit.to_json() for hit in answer.hits],
                "by": answer.answered_by,
                "note": answer.note or None,
                "unsaid": answer.unsaid or None,
            }
        )
        return
    _print(answer, explain)


def _print(answer: RecallResponse, explain: bool) -> None:
    if answer.hits and answer.unsaid:
        click.echo(answer.unsaid)
    elif answer.hits and all(hit.is_doubtful for hit in answer.hits):
        click.echo("No close match. Closest results:")
    for number, hit in enumerate(answer.hits, 1):
        _print_hit(number, hit, explain)
    if not answer.hits:
        click.echo("Nothing found.")
    if answer.note:
        say(f"({answer.note})", err=True)


def _print_hit(number: int, hit: PublicHit, explain: bool) -> None:
    about = ", ".join((hit.kind, one_line(hit.project, 200) or "no project"))
    say(f"{number}. {head_of(hit)} ({about})  {hit.score:.3f}", bold=True)
    if remarks := remarks_of(hit):
        say(f"    ! {', '.join(remarks)}", fg="yellow")
    say("    " + text_for_people(hit).replace("\n", "\n    "))
    if explain:
        click.echo("    = " + " + ".join(f"{name} {value:.3f}" for name, value in hit.parts.items()))
    for place in hit.evidence[:3]:
        if place.path:
            say(f"    {one_line(place.text, 4096)}  {place.uuid}")
    origin = [hit.origin.resume, f"commit {hit.origin.commit}" if hit.origin.commit else "", hit.origin.pull_request]
    if any(origin):
        say("    " + "  ".join(part for part in origin if part))
