"""``engram recall`` and ``engram search``: ranked memories, and verbatim turns and notes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from engram.cli.options import Command, end_answer, json_option, project_option
from engram.cli.output import print_json, say
from engram.cli.results import (
    LINES_OF_ANSWER,
    MAX_RESULTS,
    Result,
    hit_result,
    pause_note,
    print_results,
)
from engram.cli.workspace import Workspace, advise, find_project, pass_workspace, vault_note
from engram.enums import Scope
from engram.errors import BadRequest
from engram.models.engine.transaction import Store
from engram.models.projects.notes import DAILY_FOLDER
from engram.models.shown.usage import count_without_vector
from engram.paths import current_folder
from engram.search.hit_lines import doubt_about
from engram.search.hits import MAX_HITS, PublicHit, later_word
from engram.search.named_times import relative_time
from engram.search.passages.wanted import Wanted
from engram.search.question import coverage_of_question
from engram.search.quoted_phrases import phrases_of
from engram.settings import Settings
from engram.system.clock import day_of, impossible_day
from engram.transcripts.git_files import read_branch
from engram.trust.display import as_arguments, number_of, visible
from engram.vaults import own_vault
from engram.worker.recall_client import (
    AnsweredBy,
    Operation,
    RecallRequest,
    RecallResponse,
    ask_memory,
    require_words,
)

#: Flags that select a worker. With any other flag, settings may differ from the worker's, so this process searches.
_FLAGS_OF_WORKER = {"home", "claude_folder"}


def _options(command: Command) -> Command:
    limit = click.option(
        "-n",
        "--limit",
        type=click.IntRange(1, MAX_HITS),
        default=None,
        metavar="N",
        help="Maximum number of hits (default: recall_limit, 5).",
    )
    verbose = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Print everything that was found, with full texts, scores, and the transcript and line of each "
        f"(default: the best {MAX_RESULTS} in a few lines).",
    )
    explain = click.option("--explain", is_flag=True, help="Like -v, plus what each score consists of (default: off).")
    return limit(verbose(explain(project_option(json_option(command)))))


def _with_words(ctx: click.Context, param: click.Parameter, query: str) -> str:
    try:
        require_words(query)
    except BadRequest as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return query


@click.command("recall")
@click.argument("query", callback=_with_words)
@_options
@pass_workspace
def recall(workspace: Workspace, /, query: str, **chosen: Any) -> None:
    """Find what answers a question, best first.

    Each hit has a line with its title, day, project and id, which is for `engram expand`, and the sentences around the
    one that answers best. An arrow introduces how a passage's turn ended. The last line resumes the session of the best
    hit. If the question names a day, that day's commits come first; if it names nothing but a time, all hits are of
    that time. What was replaced or archived is shown with -v, or if nothing else is found. Exits with 1 if nothing is
    found.

    The running worker answers. Without a worker, this command loads the model; without a model, it searches text only.

    Example: engram recall "why did we leave SQLite" --project harbor --explain
    """
    _run(workspace, Operation.RECALL, query, **chosen)


@click.command("search")
@click.argument("query", callback=_with_words)
@_options
@pass_workspace
def search(workspace: Workspace, /, query: str, **chosen: Any) -> None:
    """Search turns and notes for exact words, best first.

    A quoted phrase is matched exactly, ignoring case. If no text has the phrase, or all the words, the output says so
    and then lists the closest texts. Exits with 1 if nothing is found.

    Example: engram search '"INSERT OR IGNORE" outbox' --limit 3
    """
    _run(workspace, Operation.SEARCH, query, **chosen)


#: Maximum number of hits printed if no text has the words: the closest ones show only that nothing closer exists.
MAX_CLOSEST = 2
#: Minimum number of texts without a vector for an answer to mention them; fewer texts hardly change the answer.
MIN_WAITING_TEXTS = 100
_WAITING = "are not prepared for the search by meaning yet: so far they are found by their words only"


def _run(
    workspace: Workspace,
    operation: Operation,
    query: str,
    *,
    project: str | None,
    limit: int | None,
    verbose: bool,
    explain: bool,
    as_json: bool,
) -> None:
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        request = RecallRequest(
            operation=operation,
            text=query,
            limit=limit or workspace.settings.recall_limit,
            project_id=None if place is None else place.id,
            branch=read_branch(current_folder()),
            max_hits=limit or MAX_HITS,
        )
        with_worker = not set(workspace.flags) - _FLAGS_OF_WORKER
        answer = ask_memory(store, workspace.settings, request, with_worker=with_worker)
        in_memory = operation is Operation.SEARCH and (answer.not_found or not answer.hits)
        in_memory = in_memory and _is_in_memory(store, query, request.project_id)
        elsewhere = "" if as_json or project else _only_elsewhere(store, workspace.settings, answer)
        unread = 0
        if not answer.hits and not as_json and own_vault(workspace.places) is None:
            from engram.reports.health import count_unread  # an answer with hits does not need it

            unread = count_unread(store, workspace.settings).files
        asked = None if as_json else Wanted.by(query, coverage_of_question(store, query))
        if asked is not None and operation is Operation.SEARCH:
            asked = replace(asked, phrases=phrases_of(query) or (query.strip(),))
        now_ms = store.now_ms()
        waiting = count_without_vector(store) if answer.answered_by is not AnsweredBy.TEXT else 0
        paused = pause_note(store, request.project_id, "what is said in the meantime is neither read nor found")
    if asked is None:
        print_json(
            {
                "hits": [hit.to_json() for hit in answer.hits],
                "by": answer.answered_by,
                "note": answer.note or None,
                "unsaid": answer.not_found or None,
            }
        )
    else:
        if elsewhere:
            say(elsewhere)
        _print(query, answer, asked, limit=limit, is_verbose=verbose or explain, with_parts=explain)
        if not answer.hits:
            of_project = (
                "" if place is None else f" in {visible(place.name)}; without --project, everything is searched"
            )
            hint = " Try other words; `engram sessions` lists what was read." if place is None else ""
            if unread:
                hint = f" {number_of(unread, 'transcript')} {'is' if unread == 1 else 'are'} not read yet."
            advise(f"Nothing found{_of_time(query, now_ms)}{of_project}.{hint}")
        if in_memory:
            advise(f"A memory contains these words: engram recall {as_arguments(query)}")
        if operation is Operation.RECALL and (day := impossible_day(query)):
            say(f"(there is no day {day}; write one such as 2026-11-05, yesterday or march)", err=True)
        if operation is Operation.SEARCH and query.count('"') % 2:
            say("(a quotation mark is not closed: what follows it was searched as words, not as a phrase)", err=True)
        if waiting >= MIN_WAITING_TEXTS:
            say(f"({number_of(waiting, 'text')} {_WAITING})", err=True)
        if paused:
            advise(paused, err=True)
        if project is None and (elsewhere := vault_note(workspace.settings, current_folder())):
            say(f"({elsewhere})", err=True)
    end_answer(is_known=bool(answer.hits))


def _of_time(query: str, now_ms: int) -> str:
    """Return the day or days that a question names relative to today, such as " from 2026-11-23 to 2026-11-29"; "" if
    it names none.
    """
    time = relative_time(query, now_ms)
    if time is None:
        return ""
    first, last = day_of(time.start_ms), day_of(min(time.stop_ms - 1, now_ms))
    return f" from {first}" if first == last else f" from {first} to {last}"


def _is_in_memory(store: Store, query: str, project_id: int | None) -> bool:
    from engram.models.search.fulltext import search_memories  # for a search without a hit
    from engram.text.words import terms_of

    return bool(search_memories(store, [tuple(terms_of(query))], 1, project_id=project_id))


def _only_elsewhere(store: Store, settings: Settings, answer: RecallResponse) -> str:
    """Return a sentence for the head of an answer whose hits are all from other projects; otherwise ""."""
    # What applies to every project is from this one, too.
    named = {"" if hit.memory and hit.memory.scope == Scope.GLOBAL else hit.project for hit in answer.hits}
    if not named or "" in named or os.path.basename(current_folder()) in named:
        return ""
    from engram.ingest.session_project import scope_of_folder  # loads in 40 ms; few answers need it

    own = scope_of_folder(store, settings, current_folder()).project
    # A limit may have left out what this project has.
    return "" if own is None or own.name in named else f"From other projects, not from {visible(own.name)}:"


def _told_once(number: int, hits: Sequence[PublicHit], results: Sequence[Result]) -> Result:
    """Return a result that only names the result above it that followed it, instead of repeating its words."""
    result, words = results[number], " ".join(hits[number].followed.partition("“")[2].rstrip("”… ").split())
    above = (place for place, hit in enumerate(hits[:number], 1) if words and words in " ".join(hit.text.split()))
    place = next(above, 0)
    return replace(result, about=[*result.about, f"then see {place}"], followed="") if place else result


def _print(
    query: str, answer: RecallResponse, asked: Wanted, *, limit: int | None, is_verbose: bool, with_parts: bool
) -> None:
    if answer.hits and answer.not_found:
        click.echo(answer.not_found)
    elif doubt := doubt_about(answer.hits):
        click.echo(doubt)
    in_force = [hit for hit in answer.hits if not hit.is_retired]
    hits = in_force if in_force and not is_verbose else answer.hits
    if asked.phrases:
        # The daily log repeats what was said in the sessions.
        hits = sorted(hits, key=lambda hit: hit.kind == "note" and hit.id.startswith(DAILY_FOLDER))
    results = [hit_result(hit, current_folder(), asked=asked, with_parts=with_parts) for hit in hits]
    results = results if is_verbose else [_told_once(number, hits, results) for number in range(len(hits))]
    # A reason that was removed later is still the reason.
    later = 0 if asked.asks_why else later_word(query, hits[:MAX_RESULTS])
    if later:
        results[0] = replace(
            results[0], remarks=[*results[0].remarks, f"taken up again later in this session: see {later + 1}"]
        )
    most = MAX_CLOSEST if answer.not_found else MAX_RESULTS
    shown = results if is_verbose or limit else results[:most]
    print_results(shown, is_verbose=is_verbose, most_lines=LINES_OF_ANSWER)
    if len(shown) < len(answer.hits):
        click.secho(f"{len(answer.hits) - len(shown)} more; add -v to see all hits, with where each was said", dim=True)
    if answer.note:
        say(f"({answer.note})", err=True)
