"""``engram why``, ``fix``, ``how``, ``blame`` and ``where``: why something was shown, and what was done before."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from engram.cli.options import (
    as_typed,
    end_answer,
    end_with_nothing,
    folder_project_option,
    json_command,
    limit_option,
    require_alone,
)
from engram.cli.output import one_line, print_facts, print_json, print_table, say, say_lines, when
from engram.cli.results import Result, in_folder, print_head, print_last, print_lines, print_rest, print_results
from engram.cli.workspace import Workspace, advise, chosen_project, find_project, project_of_folder
from engram.embedding.load_model import load_model
from engram.enums import Channel, Kind, Verdict
from engram.errors import BadRequest, NotFound
from engram.models.engine.transaction import Store
from engram.models.memories.branches import branch_place
from engram.models.memories.memory_records import find_memory
from engram.models.projects.projects import ProjectRow, list_held_projects, list_projects, project_by_id
from engram.models.sessions.prompt_outcomes import Candidate, Outcome, sessions_with_outcomes
from engram.models.sessions.sessions import (
    SessionRow,
    copies_beginning_with,
    list_sessions,
    session_titles,
    sessions_of,
)
from engram.paths import current_folder
from engram.recollection.blame import ToolHistory, Touch, blame_file, find_runs, fixed_error
from engram.recollection.branch_state import LastSession, Where, find_branch_state
from engram.recollection.choose_bites import why_not_in_force
from engram.recollection.dry_run import Explanation, explain
from engram.recollection.past_fixes import PastFix, find_fixes
from engram.recollection.reported_errors import find_answers
from engram.recollection.why import MemoryWhy, Moment, SessionWhy, why_memory, why_session
from engram.redaction import redact
from engram.reports.memory_report import whole_id
from engram.reports.session_report import REASONS, candidate_to_json, find_session_row
from engram.settings import Settings
from engram.text.shell import without_heredocs
from engram.transcripts.git_commands import MAX_STATUS_SECONDS
from engram.transcripts.git_files import read_branch
from engram.trust.display import as_arguments, number_of
from engram.worker.recall_client import ANSWER_SECONDS, AnsweredBy, with_silence
from engram.worker.worker_client import ask_worker

# -- ``engram where``: the state of the work in this folder.

#: Maximum length of a printed prompt, command or error, in characters.
_SHOWN_CHARACTERS = 200
#: Maximum number of files that are listed.
_MAX_FILES = 20


@click.command("where")
@click.option("--project", metavar="NAME", default=None, help="In this project (default: in the current folder).")
@json_command
def where(workspace: Workspace, project: str | None, as_json: bool) -> None:
    """Show the state of the work in this folder: branch, uncommitted files, open todos, last failure, open problems.

    Also shows what is open on other branches, and the last session on this branch and the latest session overall, each
    with its last prompt and the command that resumes it. Work that has been finished since is not shown. Git is only
    queried, and runs no program that the repository configures. Exits with 1 if nothing is open or known.

    Example: engram where
    """
    with workspace.store() as store:
        named = find_project(store, workspace.settings, project)
        folder = current_folder() if named is None else named.root
        place = named or project_of_folder(store, workspace.settings, folder)
        state = find_branch_state(store, None if place is None else place.id, folder, git_seconds=MAX_STATUS_SECONDS)
    if place is None and not state.branch:
        raise NotFound("this folder is not in any known project or repository; go into one, or add --project NAME")
    is_known = bool(state.is_unfinished or state.threads_elsewhere or state.last or state.last_elsewhere)
    if as_json:
        print_json({"project": None if place is None else place.name, "folder": folder} | state.to_json())
    elif state.branch or is_known:
        _print_where(state)
    else:
        say(f"Nothing is known about {project or 'this folder'} yet: no session has taken place there.")
    end_answer(is_known=is_known)


def _print_where(state: Where) -> None:
    if state.branch:
        note = {"open": ", not merged", "merged": "", "unknown": ", which may or may not be merged"}
        say(f"On branch {one_line(state.branch)}{note.get(str(state.branch_state or ''), '')}.")
    tree = state.work_tree
    if tree is not None:
        for title, names in (("Not committed", tree.changed), ("New", tree.untracked)):
            if names:
                more = f" and {len(names) - _MAX_FILES} more" if len(names) > _MAX_FILES else ""
                say(f"{title}: {', '.join(one_line(name) for name in names[:_MAX_FILES])}{more}")
        if tree.unpushed:
            say(f"Not pushed: {number_of(tree.unpushed, 'commit')}")
    if state.failure is not None:
        say(f"Failed last: {one_line(state.failure.command, _SHOWN_CHARACTERS)}")
        if state.failure.error_line:
            say(f"  {one_line(state.failure.error_line, _SHOWN_CHARACTERS)}")
    for todo in state.todos:
        say(f"To do: {one_line(todo, _SHOWN_CHARACTERS)}")
    for memory in state.threads:
        say(f"Open: {one_line(memory.summary, 2 * _SHOWN_CHARACTERS)} ({memory.episode_id})")
    if not state.is_unfinished:
        say("Nothing is open on this branch." if state.threads_elsewhere else "Nothing is open.")
    for memory, branch in state.threads_elsewhere:
        place = f"Open on branch {one_line(branch)}" if branch else "Open outside of any branch"
        say(f"{place}: {one_line(memory.summary, 2 * _SHOWN_CHARACTERS)} ({memory.episode_id})")
    here, elsewhere = state.last, state.last_elsewhere
    if here is not None:
        _print_last_session("Last session on this branch" if elsewhere else "Last session", here)
    if elsewhere is not None:
        branch = f" (branch {one_line(elsewhere.branch)})" if elsewhere.branch else ""
        _print_last_session(f"Latest session overall{branch}", elsewhere)
    if here is None and elsewhere is None:
        say("There have been no sessions here yet.")


def _print_last_session(heading: str, last: LastSession) -> None:
    click.echo()
    print_head(last.title or "(no title)", [heading, when(last.session.last_at_ms)])
    for name, prompt in (("last prompt", last.final_prompt), ("before that", last.prompt_before)):
        if prompt:
            print_lines(f"{name}: {one_line(prompt, _SHOWN_CHARACTERS)}", indent="  ")
    resume = in_folder(last.resume, last.session.cwd, current_folder())
    print_last(resume or "its transcript is gone")


# -- ``engram blame``: which memories and sessions touched a file, and why.


@click.command("blame")
@click.argument("file", type=click.Path())
@limit_option(20, "results")
@json_command
def blame(workspace: Workspace, file: str, limit: int, as_json: bool) -> None:
    """Show which memories and sessions touched a file and why, newest first, with their commits.

    FILE may have been deleted, or may be only the name of a file in any folder of the project; its folder determines
    the project. Exits with 1 if nothing is known about it.

    Example: engram blame src/cache.py
    """
    path = Path(os.path.normpath(os.path.join(current_folder() or "/", os.path.expanduser(file))))
    with workspace.store() as store:
        folder = str(path.parent)
        project = project_of_folder(store, workspace.settings, folder)
        if project is None:  # outside any repository, only the project's folder itself is recorded, not those in it
            around = [row for row in list_projects(store) if row.root and path.is_relative_to(row.root)]
            project = max(around, key=lambda row: len(row.root), default=None)
        if project is None:
            raise NotFound(f"{path} is not in any known project; `engram projects` lists those that were read")
        root = os.path.realpath(project.root) if project.root else folder
        real = Path(os.path.realpath(path))
        relative = real.relative_to(root).as_posix() if real.is_relative_to(root) else real.name
        # A bare name that was typed in another folder means the file of that name anywhere in the project.
        is_end = not real.exists() and not os.path.isabs(os.path.expanduser(file)) and ".." not in file
        found = blame_file(store, project.id, relative, project.root)
        if is_end and not any(touch.kind == "change" for touch in found):
            found = blame_file(store, project.id, Path(file).as_posix(), project.root, anywhere=True)
        touches = found[:limit]
        titles = session_titles(store, sessions_of(store, {touch.session_id for touch in touches}).values())
    if as_json:
        print_json({"file": relative, "project": project.name, "touches": [touch.to_json() for touch in touches]})
        end_answer(is_known=bool(touches))
    if not touches:
        end_with_nothing(f"Nothing is known about {relative} in {project.name}.")
    _print_blame(touches, titles)
    print_rest(len(found), len(touches))


def _print_blame(touches: Sequence[Touch], titles: Mapping[str, str]) -> None:
    results = []
    for touch in touches:
        place = branch_place(touch.branch, is_unmerged=touch.is_unmerged) if touch.branch else ""
        commits = [f"commit {one_line(commit, 160)}" for commit in touch.commits]
        results.append(
            Result(
                titles.get(touch.session_id, ""),
                [when(touch.at_ms), touch.kind, place],
                text="\n".join([one_line(touch.text, 300), *commits]),
                id=touch.id,
                resume=touch.resume,
            )
        )
    print_results(results)


# -- ``engram how``: how a tool was run in this project.


@click.command("how")
@click.argument("tool")
@folder_project_option
@limit_option(10, "commands")
@json_command
def how(workspace: Workspace, tool: str, project: str | None, is_everywhere: bool, limit: int, as_json: bool) -> None:
    """Show the commands that ran a tool and passed in earlier sessions, newest first, with exit code and date.

    TOOL is a program, with or without its subcommand. Looks in the project of this folder; outside of any, or with
    --all, in all projects. A command whose exit code is another program's, as in front of a pipe, counts as neither
    passed nor failed. Exits with 1 if the tool never passed.

    Example: engram how "git rebase"
    """
    require_alone("is_everywhere", but=("tool", "limit"))
    with workspace.store() as store:
        place = None if is_everywhere else chosen_project(store, workspace.settings, project)
        places = list_projects(store) if place is None else [place]
        history = find_runs(store, places, tool)
        runs = history.passed[:limit]
        error = fixed_error(store, history.failed, [row.id for row in places], {read_branch(current_folder())})
        is_elsewhere = not (history.passed or place is None) and find_runs(store, list_projects(store), tool).passed
    if as_json:
        counts = {"failed": len(history.failed), "unknown": history.unknown}
        print_json({"tool": tool, "runs": [run.to_json() for run in runs], **counts})
        end_answer(is_known=bool(runs))
    where = "any project" if place is None else one_line(place.name, 60)
    if not runs:
        tried = f"; it failed {number_of(len(history.failed), 'time')}" if history.failed else ""
        tried += "; add --all for those of other projects" * bool(is_elsewhere)
        unknown = f" {_how_it_ended(history)}" if history.unknown else ""
        end_with_nothing(f"No command that ran {one_line(tool, 60)} and passed is known in {where}{tried}.{unknown}")
    resumed = ""
    for run in runs:
        times = f", {number_of(run.times, 'time')}" if run.times > 1 else ""
        of_project = f" · {one_line(run.project, 60)}" if place is None else ""
        say_lines(one_line(redact(without_heredocs(run.command)), 300), bold=True)
        say_lines(f"{when(run.at_ms)} · exit {run.exit_code}{times}{of_project}", indent="   ", dim=True)
        if run.resume not in ("", resumed):
            resumed = run.resume
            say_lines(resumed, indent="   ", dim=True)
    print_rest(len(history.passed), len(runs))
    if history.failed:
        say(f"It also failed {number_of(len(history.failed), 'time')}.")
    if error:
        flags = "--all " if is_everywhere else f"--project {shlex.quote(project)} " if project else ""
        advise(f"How that was once fixed:\n  engram fix {flags}{as_arguments(redact(error))}")
    if history.unknown:
        say(_how_it_ended(history))


def _how_it_ended(history: ToolHistory) -> str:
    """Return a sentence that says how many calls had an unknown result, and why."""
    return (
        f"The result is unknown for {number_of(history.unknown, 'call')} in the background, or in front of a pipe or "
        "`;`, after which the exit code is another program's."
    )


# -- Ask which answer a prompt would get: from the worker if it is running, else by a dry run in this process.

logger = logging.getLogger(__name__)


def explain_prompt(
    store: Store, settings: Settings, prompt: str, project: ProjectRow | None, *, with_worker: bool = True
) -> tuple[Explanation, AnsweredBy, str]:
    """Return the answer that a prompt would get, its source, and remarks on that source ("" if there are none).

    Args:
        settings: the worker's settings.
        prompt: the prompt as a person would type it.
        project: the project in which it is typed; None outside any project.
        with_worker: ask the worker first. False if the settings of this call differ from the worker's.
    """
    if with_worker:
        request = {"op": "explain", "prompt": prompt, "project_id": None if project is None else project.id}
        explanation = _parse(ask_worker(settings.places, request, timeout_seconds=ANSWER_SECONDS))
        if explanation is not None:
            return explanation, AnsweredBy.WORKER, ""
    from engram.recollection.recollection_service import RecollectionService
    from engram.search.searcher import Searcher

    embedder, note = load_model(settings)
    note = with_silence(settings, note) if with_worker else note
    searcher = Searcher(store, settings, embedder=embedder)
    searcher.refresh()
    explanation = explain(RecollectionService(store, searcher, settings, embedder=embedder), prompt, project)
    return explanation, AnsweredBy.TEXT if embedder is None else AnsweredBy.MODEL, note


def _parse(answer: Mapping[str, Any] | None) -> Explanation | None:
    """Return the explanation in the worker's response; None if there is no worker, or it can't be parsed."""
    if answer is None:
        return None
    try:
        return Explanation.from_json(answer)
    except (KeyError, TypeError, ValueError, AttributeError):
        # The worker has another version, or reports an error.
        logger.warning("action=explain_prompt failed=no explanation error=%s", str(answer.get("error", ""))[:200])
        return None


@click.command("why")
@click.argument("what", metavar="[SESSION|ID]", required=False)
@click.option(
    "--prompt", metavar="TEXT", default=None, help="Explain which answer this prompt would get now (default: none)."
)
@click.option(
    "--project",
    metavar="NAME",
    default=None,
    help="Of the last prompt, or with --prompt: the project, by its name or a folder in it (default: the current "
    "folder's).",
)
@limit_option(50, "moments")
@json_command
def why(
    workspace: Workspace, what: str | None, prompt: str | None, project: str | None, limit: int, as_json: bool
) -> None:
    """Show why Claude was shown something, or nothing. Without an argument: with the last prompt in this folder.

    With a session: for each prompt, what was shown or why nothing was, and how relevant the best memories were compared
    with the relevance they needed; also, which of your sentences sound like rules but were not kept. The beginning of a
    session's id is enough.

    With the id of a memory or a quotation (q_…): when it was shown, when it almost was, and why it was not.

    With --prompt: what Claude would be shown now, decided in the same way. Nothing is stored, and nothing counts as
    shown.

    Example: engram why --prompt "Why does the export fail?" --project harbor
    """
    require_alone("what", but=("limit",))
    with workspace.store() as store:
        if prompt is not None:
            _explain(workspace, store, prompt, project, as_json)
        elif what is None:
            _print_last_prompt(workspace, store, chosen_project(store, workspace.settings, project), as_json)
        elif (given := whole_id(store, what)).startswith(("ep_", "q_")):
            _print_memory(why_memory(store, given, limit if as_json else None), limit, as_json)
        else:
            session_id, session = _find_session(store, what)
            _print_session(why_session(store, session_id, session), limit, as_json)


def _print_last_prompt(workspace: Workspace, store: Store, place: ProjectRow | None, as_json: bool) -> None:
    """Print the outcome of the last prompt in a project, or in any project, and what else can be asked."""
    rows = list_sessions(store, _LATEST, project_id=None if place is None else place.id)
    session = next((row for row in rows if "." not in row.session_id), None)
    if session is None and as_json:
        _print_session(SessionWhy("", (), {}), 1, as_json)
    if session is None:
        where = "" if place is None else f" of {one_line(place.name, 60)}"
        end_with_nothing(f"No session{where} is known yet. {_ASK_WHY}")
    report = why_session(store, session.session_id, session)
    # A briefing may be recorded after the first prompt.
    prompts = tuple(moment for moment in report.moments if moment.prompt or not _is_start(moment))
    report = replace(report, moments=(prompts or report.moments)[-1:])
    _print_session(report, 1, as_json)
    of = project_by_id(store, session.project_id) if place is None and session.project_id is not None else None
    where = f" of all, in {one_line(of.name, 60)}, since this folder is not in any known project" if of else ""
    advise(f"\nThat was the last prompt{where}. The whole session: engram why {session.session_id}. {_ASK_WHY}")


#: How many of the latest sessions are searched for one that a person started; subagents have sessions, too.
_LATEST = 100
#: Minimum relevance of a memory that is listed; less says nothing about the prompt.
_LEAST_RELEVANCE = 0.05
#: What `engram why` can be asked.
_ASK_WHY = "Also: engram why ID of a memory, or engram why --prompt TEXT for what Claude would be shown now."


def _explain(workspace: Workspace, store: Store, prompt: str, project: str | None, as_json: bool) -> None:
    settings = workspace.settings
    place = chosen_project(store, settings, project)
    explanation, answered_by, note = explain_prompt(store, settings, prompt, place, with_worker=not workspace.flags)
    reason = _dry_reason(store, explanation)
    if as_json:
        summaries = {memory.candidate.episode_id: memory.summary for memory in explanation.memories}
        memories = [candidate_to_json(memory.candidate, summaries) for memory in explanation.memories]
        more = {"why": reason, "memories": memories, "by": answered_by.value, "note": note}
        print_json(explanation.to_json() | more)
        return
    _print_explanation(explanation, reason)
    if place is None and list_held_projects(store):
        advise("\nThis folder is not in any known project; add --project NAME to ask as if in one.")
    if note:
        say(note, err=True)


def _print_explanation(explanation: Explanation, reason: str) -> None:
    print_facts(
        [
            ("verdict", f"{explanation.verdict}: {reason}"),
            ("project", explanation.project or "none: only global memories"),
            ("searched for", one_line(explanation.text)),
            ("best", _against_floor(explanation.score, explanation.floor)),
            (
                "considered",
                number_of(explanation.candidates, "memory or quotation", "memories and quotations")
                + (", by text alone" * explanation.is_text_only),
            ),
            ("took", f"{explanation.duration_ms} ms"),
        ]
    )
    considered = [memory for memory in explanation.memories if memory.candidate.score >= _LEAST_RELEVANCE]
    if considered:
        click.echo()
        print_table(
            ["id", "relevance#", "needed#", "verdict", "text"],
            [(*_candidate_cells(memory.candidate), one_line(memory.summary, 80)) for memory in considered],
            empty="",
        )
        if explanation.candidates > len(considered):
            say(f"and {explanation.candidates - len(considered)} more, less relevant")
    if explanation.shown:
        click.echo()
        say(explanation.shown)


def _dry_reason(store: Store, explanation: Explanation) -> str:
    if explanation.verdict is Verdict.SHOWN:
        return "Claude would be shown this"
    if explanation.verdict is Verdict.NOT_CURRENT:
        ids = [one.candidate.episode_id for one in explanation.memories if one.candidate.verdict is Verdict.NOT_CURRENT]
        memory = find_memory(store, ids[0]) if ids else None
        reason = "" if memory is None else why_not_in_force(memory, store.now_ms())
        if reason:
            return f"{ids[0]} is not current: {reason}"
    return REASONS[explanation.verdict]


def _print_memory(report: MemoryWhy, limit: int, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        return
    say(one_line(report.summary, 200), bold=True)
    print_table(
        ["at", "session", "channel", "relevance#", "needed#", "verdict", "why"],
        [
            (
                when(outcome.at_ms),
                outcome.session_id,
                outcome.channel,
                f"{candidate.score:.2f}",
                f"{candidate.floor:.2f}",
                candidate.verdict,
                REASONS[candidate.verdict],
            )
            for outcome in report.outcomes[:limit]
            for candidate in outcome.considered
        ],
        empty="It was never shown, and never came close enough to be recorded.",
    )
    print_rest(len(report.outcomes), limit)


def _print_session(report: SessionWhy, limit: int, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        end_answer(is_known=bool(report.moments))
    if not report.moments:
        end_with_nothing("No prompts of this session are known.")
    moments = report.moments[-limit:]
    for moment, following in zip_longest(moments, moments[1:]):
        is_told_below = following is not None and moment.verdict is following.verdict is Verdict.BEFORE_ENGRAM
        _print_moment(moment, report, with_silence=not is_told_below)
    print_rest(len(report.moments), limit)


def _print_moment(moment: Moment, report: SessionWhy, *, with_silence: bool) -> None:
    """Print one prompt and its outcome; with ``with_silence``, also why a prompt without an outcome has none."""
    unknown = "(start of the session)" if _is_start(moment) else "(a prompt whose transcript was not read)"
    title = one_line(moment.prompt, 100) or unknown
    say(f"{when(moment.at_ms)}  {title}", bold=True)
    for outcome in moment.outcomes:
        print_lines(f"{outcome.channel}: {_verdict(outcome)}", indent="  ")
        for candidate in outcome.considered:
            summary = one_line(report.summaries.get(candidate.episode_id, ""), 80)
            print_lines(f"{'  '.join(_candidate_cells(candidate))}  {summary}", indent="    ")
    if not moment.outcomes and with_silence:
        print_lines(f"{moment.verdict}: {REASONS[moment.verdict]}", indent="  ")
    for one in moment.no_rules:
        print_lines(f"not kept as a rule: “{one_line(one.sentence, 100)}”: {one.refusal}", indent="  ")


def _is_start(moment: Moment) -> bool:
    return any(outcome.channel is Channel.START for outcome in moment.outcomes)


def _verdict(outcome: Outcome) -> str:
    """Return the verdict, why, and how relevant the memory was; "shown" is its own reason."""
    against = _against_floor(outcome.score, outcome.floor)
    why = "" if outcome.verdict is Verdict.SHOWN else f": {REASONS[outcome.verdict]}"
    return f"{outcome.verdict}{why}" + (f" ({against})" if against else "")


def _candidate_cells(candidate: Candidate) -> tuple[str, str, str, str]:
    return candidate.episode_id, f"{candidate.score:.2f}", f"{candidate.floor:.2f}", candidate.verdict.value


def _against_floor(score: float | None, floor: float | None) -> str:
    return "" if score is None or floor is None else f"relevance {score:.2f}, needed {floor:.2f}"


def _find_session(store: Store, text: str) -> tuple[str, SessionRow | None]:
    """Return the session with the given id or prefix; its row is None if its transcript has not been read."""
    try:
        session = find_session_row(store, text)
        return session.session_id, session
    except NotFound:
        matches = sessions_with_outcomes(store, text)
        known = [row.session_id for row in list_sessions(store)] + [
            copy for copy, _ in copies_beginning_with(store, text)
        ]
        if not matches and not any(session_id.startswith(text) for session_id in known):
            raise NotFound(
                f"there is no session {text!r}; `engram sessions` lists them. A memory's id begins with ep_, and "
                "`engram timeline` lists those"
            ) from None
        if len(matches) != 1:
            raise
        return matches[0], None


# -- ``engram fix``: what fixed an error before, and what was answered when it was reported.

#: Maximum number of characters of an error that are read.
MAX_ERROR_CHARACTERS = 100_000


@click.command("fix")
@click.argument("error", callback=as_typed)
@folder_project_option
@limit_option(5, "results")
@json_command
def fix(workspace: Workspace, error: str, project: str | None, is_everywhere: bool, limit: int, as_json: bool) -> None:
    """Show what fixed an error before: how the command passed later, memories of fixes, and dead ends.

    Last come the answers that Claude gave when a prompt contained the error. Nothing proves that they helped.

    ERROR is the message or its most informative line; `-` reads it from standard input. Looks in the project of this
    folder; outside of any, or with --all, in all projects. Exits with 1 if nothing is known.

    Example: engram fix "ModuleNotFoundError: No module named 'yaml'"
    """
    text = (sys.stdin.read(MAX_ERROR_CHARACTERS) if error == "-" else error)[:MAX_ERROR_CHARACTERS]
    if not text.strip():
        raise BadRequest("the error is empty: give the message, or its most informative line")
    require_alone("is_everywhere", but=("error", "limit"))
    with workspace.store() as store:
        place = None if is_everywhere else chosen_project(store, workspace.settings, project)
        every_place = [row.id for row in list_projects(store)]
        places = every_place if place is None else [place.id]
        explained, _, _ = explain_prompt(store, workspace.settings, text, place, with_worker=not workspace.flags)
        shown = [memory.candidate for memory in explained.memories if memory.candidate.verdict is Verdict.SHOWN]
        relevance_of = {candidate.episode_id: candidate.score for candidate in shown}
        masked, branches = redact(text), {read_branch(current_folder())}
        proven = find_fixes(store, masked, places, relevance_of=relevance_of, branches=branches)
        found = [*proven, *find_answers(store, masked, places, but=proven, branches=branches)]
        fixes = found[:limit]
        others = [] if fixes or place is None else every_place
        is_elsewhere = bool(
            find_fixes(store, masked, others, branches=branches)
            or find_answers(store, masked, others, branches=branches)
        )
    if as_json:
        print_json({"fixes": [one.to_json() for one in fixes]})
        end_answer(is_known=bool(fixes))
    if not fixes:
        where = "any project" if place is None else one_line(place.name, 60)
        hint = "add --all for those of other projects" if is_elsewhere else "`engram recall` finds what was said"
        end_with_nothing(f"No earlier fix of this error is known in {where}; {hint}.")
    print_results(
        [
            Result(
                _fix_title(one),
                [when(one.at_ms), one.project if place is None or one.project != place.name else ""],
                text="\n".join(part for part in (one_line(one.text, 400), one_line(one.words, 400)) if part),
                id=one.id,
                resume=one.resume,
            )
            for one in fixes
        ]
    )
    print_rest(len(found), len(fixes))


def _fix_title(fix: PastFix) -> str:
    if not fix.is_proven:
        return "Reported, and answered (not proven)"
    return "Did not work" if fix.kind is Kind.DEAD_END else "Fixed"
