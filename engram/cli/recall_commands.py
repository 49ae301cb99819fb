"""``engram recall`` and ``engram search``: ranked memories, and verbatim turns and notes."""

from __future__ import annotations

import click

from engram.cli.options import Command, json_option, project_option
from engram.cli.output import print_json, say
from engram.cli.results import MAX_RESULTS, hit_result, print_results
from engram.cli.workspace import Workspace, current_folder, find_project, pass_workspace
from engram.errors import BadRequest
from engram.search.hits import MAX_HITS
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
    verbose = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Print everything that was found, with whole texts, scores, and the transcript and line of each "
        f"(default: the best {MAX_RESULTS} in a few lines).",
    )
    explain = click.option("--explain", is_flag=True, help="As -v, with the parts of every score (default: without).")
    return limit(verbose(explain(project_option(json_option(command)))))


@click.command("recall")
@click.argument("query")
@_options
@pass_workspace
def recall(
    workspace: Workspace,
    query: str,
    project: str | None,
    limit: int | None,
    verbose: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Find what answers a question, the best first: title, day and project, the sentences, what resumes the session.

    Memories come before what was said word for word. What came of a passage's turn is printed behind an arrow. The id
    in the last line is for `engram expand`. If the question names a day, what was committed then comes first.

    Asks the running worker. Without a worker the compiled model is loaded, and without that only text is searched.

    Example: engram recall "why did we leave SQLite" --project harbor --explain
    """
    _run(workspace, Operation.RECALL, query, project, limit, verbose, explain, as_json)


@click.command("search")
@click.argument("query")
@_options
@pass_workspace
def search(
    workspace: Workspace,
    query: str,
    project: str | None,
    limit: int | None,
    verbose: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Search turns and notes, word for word, best first.

    A phrase in quotes is found as it stands, in any case of letters. Where no text has the phrase, or all of the words
    together, that is said first, and the closest texts follow.

    Example: engram search '"INSERT OR IGNORE" outbox' --limit 3
    """
    _run(workspace, Operation.SEARCH, query, project, limit, verbose, explain, as_json)


def _run(
    workspace: Workspace,
    operation: Operation,
    query: str,
    project: str | None,
    limit: int | None,
    verbose: bool,
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
    _print(answer, limit=limit, is_verbose=verbose or explain, with_parts=explain)


def _print(answer: RecallResponse, *, limit: int | None, is_verbose: bool, with_parts: bool) -> None:
    if answer.hits and answer.unsaid:
        click.echo(answer.unsaid)
    elif answer.hits and all(hit.is_doubtful for hit in answer.hits):
        click.echo("No close match. Closest results:")
    here = current_folder()
    results = [hit_result(hit, here, with_parts=with_parts) for hit in answer.hits]
    shown = results if is_verbose or limit else results[:MAX_RESULTS]
    print_results(shown, is_verbose=is_verbose)
    if len(shown) < len(results):
        click.secho(f"\n{len(results) - len(shown)} more, and where each was said: add -v", dim=True)
    if not answer.hits:
        click.echo("Nothing found.")
    if answer.note:
        say(f"({answer.note})", err=True)
