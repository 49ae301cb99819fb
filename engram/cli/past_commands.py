"""``engram where``, ``sessions``, ``fix``, ``how`` and ``blame``: what was done before, and where the work stands."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from engram.cli.options import (
    end_answer,
    end_with_nothing,
    folder_project_option,
    json_command,
    limit_option,
    project_option,
    require_alone,
    tell,
)
from engram.cli.output import one_line, print_facts, print_json, print_table, safe, say, say_lines, when
from engram.cli.results import (
    Result,
    folders_of,
    print_head,
    print_last,
    print_lines,
    print_rest,
    print_results,
    print_titles,
    resuming,
)
from engram.cli.why_commands import explain_prompt
from engram.cli.workspace import Workspace, advise, chosen_project, find_project, project_of_folder
from engram.enums import Kind, Verdict
from engram.errors import NotFound
from engram.models.memories.branches import branch_place
from engram.models.projects.projects import list_projects
from engram.models.sessions.sessions import MAX_ROLLING_SUMMARY_CHARACTERS, list_sessions, session_titles, sessions_of
from engram.paths import current_folder
from engram.recollection.blame import ToolHistory, Touch, blame_file, find_runs, fixed_error
from engram.recollection.branch_state import LastSession, Where, find_branch_state
from engram.recollection.briefing_lines import MAX_STATE_AGE_MS
from engram.recollection.past_fixes import PastFix, find_fixes
from engram.recollection.reported_errors import find_answers
from engram.redaction import redact
from engram.reports.session_report import (
    Activity,
    SessionReport,
    find_session_row,
    report_session,
    resume_of,
    summarize_rows,
)
from engram.search.hits import in_folder, makes_folder
from engram.text.shell import told_runs
from engram.text.titles import MAX_TITLE_CHARACTERS
from engram.transcripts.claude_code.agent import ClaudeCode
from engram.transcripts.git_commands import MAX_STATUS_SECONDS
from engram.transcripts.git_files import read_branch
from engram.transcripts.registry import assistant_of, title_of
from engram.transcripts.turns import Opening
from engram.trust.display import as_arguments, counted, number_of

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
        place = " on this branch" if state.threads_elsewhere else ""
        say(f"Nothing is open{place} from the last {MAX_STATE_AGE_MS // 86_400_000} days.")
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
    print_last(resuming(last.resume, last.session.cwd))


# -- ``engram blame``: which memories and sessions touched a file, and why.


@click.command("blame")
@click.argument("file", type=click.Path())
@click.option(
    "--project", metavar="NAME", default=None, help="The project of FILE (default: the one that its folder is in)."
)
@limit_option(20, "results")
@json_command
def blame(workspace: Workspace, file: str, project: str | None, limit: int, as_json: bool) -> None:
    """Show which memories and sessions touched a file and why, newest first, with their commits.

    FILE may have been deleted, or may be only the name of a file in any folder of the project. With --project, FILE is
    in the project's folder. Exits with 1 if nothing is known about it.

    Example: engram blame src/cache.py
    """
    with workspace.store() as store:
        named = find_project(store, workspace.settings, project)
        start = current_folder() if named is None else named.root
        path = Path(os.path.normpath(os.path.join(start or "/", os.path.expanduser(file))))
        folder = str(path.parent)
        place = named or project_of_folder(store, workspace.settings, folder)
        if place is None:  # outside any repository, only the project's folder itself is recorded, not those in it
            around = [row for row in list_projects(store) if row.root and path.is_relative_to(row.root)]
            place = max(around, key=lambda row: len(row.root), default=None)
        if place is None:
            raise NotFound(f"{path} is not in any known project; `engram projects` lists those that were read")
        root = os.path.realpath(place.root) if place.root else folder
        real = Path(os.path.realpath(path))
        relative = real.relative_to(root).as_posix() if real.is_relative_to(root) else real.name
        # A bare name that was typed in another folder means the file of that name anywhere in the project.
        is_end = not real.exists() and not os.path.isabs(os.path.expanduser(file)) and ".." not in file
        found = blame_file(store, place.id, relative, place.root)
        if is_end and not any(touch.kind == "change" for touch in found):
            found = blame_file(store, place.id, Path(file).as_posix(), place.root, anywhere=True)
        touches = found[:limit]
        sessions = sessions_of(store, {touch.session_id for touch in touches})
        titles = session_titles(store, sessions.values())
        folders = {name: session.cwd for name, session in sessions.items()}
    if as_json:
        print_json({"file": relative, "project": place.name, "touches": [touch.to_json() for touch in touches]})
        end_answer(is_known=bool(touches))
    if not touches:
        end_with_nothing(f"Nothing is known about {relative} in {place.name}.")
    _print_blame(touches, titles, folders)
    print_rest(len(found), len(touches))


def _print_blame(touches: Sequence[Touch], titles: Mapping[str, str], folders: Mapping[str, str]) -> None:
    results, here = [], current_folder()
    for touch in touches:
        place = branch_place(touch.branch, is_unmerged=touch.is_unmerged) if touch.branch else ""
        commits = [f"commit {one_line(commit, 160)}" for commit in touch.commits]
        results.append(
            Result(
                titles.get(touch.session_id, ""),
                [when(touch.at_ms), touch.kind, place],
                text="\n".join([one_line(touch.text, 300), *commits]),
                id=touch.id,
                resume=in_folder(touch.resume, folders.get(touch.session_id, ""), here),
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
        folders = folders_of(store, (run.session_id for run in runs))
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
        say_lines(one_line(told_runs(redact(run.command), tool), 300), bold=True)
        say_lines(f"{when(run.at_ms)} · exit {run.exit_code}{times}{of_project}", indent="   ", dim=True)
        resume = in_folder(run.resume, folders.get(run.session_id, ""), current_folder())
        if resume not in ("", resumed) and not makes_folder(resume):
            resumed = resume
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
        f"Whether {number_of(history.unknown, 'call')} worked is unknown: the exit code was another program's. That is "
        "so in the background, before a pipe and before `;`."
    )


# -- ``engram fix``: what fixed an error before, and what was answered when it was reported.

#: Maximum number of characters of an error that are read.
MAX_ERROR_CHARACTERS = 100_000


@click.command("fix")
@click.argument("error")
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
        raise click.UsageError("the error is empty: give the message, or its most informative line")
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
        folders = folders_of(store, (known.session_id for known in fixes))
        others = [] if fixes or place is None else every_place
        is_elsewhere = bool(
            find_fixes(store, masked, others, branches=branches)
            or find_answers(store, masked, others, branches=branches)
        )
    if as_json:
        print_json({"fixes": [known.to_json() for known in fixes]})
        end_answer(is_known=bool(fixes))
    if not fixes:
        where = "any project" if place is None else one_line(place.name, 60)
        hint = "add --all for those of other projects" if is_elsewhere else "`engram recall` finds what was said"
        end_with_nothing(f"No earlier fix of this error is known in {where}; {hint}.")
    print_results(
        [
            Result(
                _fix_title(known),
                [when(known.at_ms), known.project if place is None or known.project != place.name else ""],
                text="\n".join(part for part in (one_line(known.text, 400), one_line(known.words, 400)) if part),
                id=known.id,
                resume=in_folder(known.resume, folders.get(known.session_id, ""), current_folder()),
            )
            for known in fixes
        ]
    )
    print_rest(len(found), len(fixes))


def _fix_title(fix: PastFix) -> str:
    if not fix.is_proven:
        return "Reported, and answered (not proven)"
    return "Did not work" if fix.kind is Kind.DEAD_END else "Fixed"


# -- ``engram sessions``: the sessions that were read; with an ID, everything known about one.


@click.command("sessions")
@click.argument("session_id", metavar="[ID]", required=False)
@project_option
@limit_option(30, "sessions")
@json_command
def sessions(workspace: Workspace, session_id: str | None, project: str | None, limit: int, as_json: bool) -> None:
    """List the sessions that were read, latest first; with an ID, show everything that is known about that session.

    A session is active while it grows, idle after `idle_seconds` without growth, and over after `live_seconds`, or when
    its transcript is gone.

    For one session, it shows the command that resumes it, a summary if a language model has read it, the memories made
    from it, its prompts, what Claude was shown in it, when, and with how many tokens, and how far its files have been
    read. The beginning of an ID is enough. `engram why ID` explains what was shown, prompt by prompt.

    Example: engram sessions 81d05d22
    """
    with workspace.store() as store:
        if session_id is not None:
            require_alone("session_id", but=("limit",))
            session = find_session_row(store, session_id)
            report, resume = report_session(store, workspace.settings, session), resume_of(store, session)
            command = resuming(resume, session.cwd)
            tell(as_json, report.to_json() | {"resume": resume or None}, lambda: _print_session(report, command))
            return
        place = find_project(store, workspace.settings, project)
        project_id = None if place is None else place.id
        rows = list_sessions(store, project_id=project_id)
        summaries = summarize_rows(store, workspace.settings, rows[:limit])
    if as_json:
        print_json({"sessions": [summary.to_json() for summary in summaries]})
        return
    print_titles(
        [
            Result(
                one_line(summary.title, MAX_TITLE_CHARACTERS) or "(no prompt)",
                [
                    when(summary.session.last_at_ms),
                    summary.project,
                    "" if summary.session.agent == ClaudeCode.name else title_of(summary.session.agent),
                    "" if summary.activity is Activity.OVER else summary.activity.value,
                    counted(summary.totals.turns, "turn"),
                    counted(summary.totals.memories, "memory"),
                    f"shown {summary.totals.shown}" if summary.totals.shown else "",
                ],
                id=summary.session.session_id,
            )
            for summary in summaries
        ],
        empty="No sessions have been read yet. `engram up --once` reads them now."
        if place is None
        else f"No sessions of {place.name} have been read. `engram sessions` lists the existing ones.",
    )
    print_rest(len(rows), len(summaries))


def _print_session(report: SessionReport, resume: str) -> None:
    summary = report.summary
    session = summary.session
    print_head(summary.title or "(no prompt)", [when(session.last_at_ms), summary.project])
    asked = [stored.turn for stored in report.turns if stored.turn.opening is not Opening.CONTINUATION]
    ended = sum(not memory.is_current for memory in report.memories)
    print_facts(
        [
            ("id", session.session_id),
            ("resume", resume),
            ("agent", title_of(session.agent)),
            ("project", ", ".join(filter(None, (summary.project, *summary.other_projects)))),
            ("folder", session.cwd),
            ("branch", session.branch),
            ("began", when(session.first_at_ms)),
            ("last entry", when(session.last_at_ms)),
            ("state", summary.activity.value),
            ("messages", session.message_count),
            ("prompts", len(asked)),
            (
                "memories",
                f"{summary.totals.memories or 'none in force'}, and {ended} replaced or archived"
                if ended
                else summary.totals.memories,
            ),
            (
                "shown",
                f"{number_of(summary.totals.shown, 'memory')}, at the start and later" if summary.totals.shown else "",
            ),
            ("at prompts", report.prompts),
            ("summary", one_line(session.rolling_summary, MAX_ROLLING_SUMMARY_CHARACTERS)),
        ]
    )
    click.echo()
    waiting = sum(stored.extracted_revision != stored.revision for stored in report.turns)
    later = f"Memories from {number_of(waiting, 'turn')} will be made later."
    print_table(
        ["memory", "kind", "title"],
        [
            (
                memory.episode_id,
                memory.kind if memory.is_current else f"{memory.kind}, {memory.status.told}",
                one_line(memory.shown_title),
            )
            for memory in report.memories
        ],
        empty=later if waiting else "No memory was made from it. Search finds everything that was said.",
    )
    if waiting and report.memories:
        click.echo(later)
    click.echo()
    print_table(
        ["at", "prompt"],
        [(when(turn.started_at_ms), one_line(turn.prompt, 100)) for turn in asked],
        empty="No prompts.",
    )
    click.echo()
    shown: list[tuple[object, ...]] = [
        (when(injection.at_ms), injection.channel, injection.state, injection.episode_id, injection.tokens)
        for injection in report.injections
    ]
    shown += [(when(briefing.at_ms), briefing.what, "shown", "", briefing.tokens) for briefing in report.briefings]
    print_table(
        ["at", "channel", "state", "memory", "tokens#"],
        shown,
        empty=f"{assistant_of(session.agent)} was shown nothing in it.",
    )
    click.echo()
    say("read  lines  transcript" if report.files else "No files.", bold=bool(report.files))
    for file in report.files:
        share = "all" if file.offset >= file.size else f"{100 * file.offset // max(file.size, 1)} %"
        # A line that is not wrapped can be copied.
        click.echo(f"{share:>4}  {file.lines:>5}  {safe(str(file.path))}")
    if report.prompts:
        advise(f"\nWhy, prompt by prompt: engram why {session.session_id}")
