"""``engram sessions``: the sessions that were read; with an ID, everything that is known of one."""

from __future__ import annotations

import click

from engram.cli.options import TimeSpan, json_option, limit_option, project_option
from engram.cli.output import one_line, print_facts, print_json, print_table, say, when
from engram.cli.results import Result, counted, print_head, print_titles
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.models.sessions.sessions import MAX_ROLLING_SUMMARY_CHARACTERS
from engram.models.sessions.sources import FileTotals
from engram.models.work.pauses import FOREVER_MS, paused_scopes, resume
from engram.models.work.pauses import pause as pause_scope
from engram.reports.session_report import Activity, SessionReport, find_session_row, report_session, summarize_sessions
from engram.text.titles import MAX_TITLE_CHARACTERS
from engram.transcripts.claude_code.agent import ClaudeCode
from engram.transcripts.registry import title_of


@click.command("sessions")
@click.argument("session_id", metavar="[ID]", required=False)
@project_option
@limit_option(30, "sessions")
@json_option
@pass_workspace
def sessions(workspace: Workspace, session_id: str | None, project: str | None, limit: int, as_json: bool) -> None:
    """List the sessions that were read, latest first; with an ID, show everything that is known of that session.

    A session is active while it has new entries, idle after `idle_seconds` without one, and over after `live_seconds`.

    For one session: what it is about, if a language model distilled it, its files and how far they were read, its
    prompts, the memories made of it, and what Claude was shown in it, when, and how many tokens that took. The
    beginning of an ID is enough. `engram why ID` says why, prompt by prompt.

    Example: engram sessions 81d05d22
    """
    with workspace.store() as store:
        if session_id is not None:
            report = report_session(store, workspace.settings, find_session_row(store, session_id))
            if as_json:
                print_json(report.to_json())
            else:
                _print_report(report)
            return
        place = find_project(store, workspace.settings, project)
        project_id = None if place is None else place.id
        summaries = summarize_sessions(store, workspace.settings, project_id=project_id, limit=limit)
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
                    counted(summary.totals.memories, "memory", "memories"),
                    f"shown {summary.totals.shown}" if summary.totals.shown else "",
                ],
                id=summary.session.session_id,
            )
            for summary in summaries
        ],
        empty="No session was read yet. `engram up --once` reads them now.",
    )


def _print_report(report: SessionReport) -> None:
    summary = report.summary
    session = summary.session
    print_head(summary.title or "(no prompt)", [when(session.last_at_ms), summary.project])
    print_facts(
        [
            ("id", session.session_id),
            ("agent", title_of(session.agent)),
            ("project", summary.project),
            ("folder", session.cwd),
            ("branch", session.branch),
            ("began", when(session.first_at_ms)),
            ("last entry", when(session.last_at_ms)),
            ("state", summary.activity.value),
            ("messages", session.message_count),
            ("prompts", report.prompts),
            ("waiting", _waiting(report)),
            ("summary", one_line(session.rolling_summary, MAX_ROLLING_SUMMARY_CHARACTERS)),
        ]
    )
    click.echo()
    print_table(
        ["read#", "lines#", "transcript"],
        [(_share_read(file), file.lines, file.path) for file in report.files],
        empty="No files.",
    )
    click.echo()
    print_table(
        ["at", "prompt"],
        [(when(stored.turn.started_at_ms), one_line(stored.turn.prompt, 100)) for stored in report.turns],
        empty="No turns.",
    )
    click.echo()
    print_table(
        ["memory", "kind", "title"],
        [(memory.episode_id, memory.kind, one_line(memory.shown_title)) for memory in report.memories],
        empty="No memories of this session yet.",
    )
    click.echo()
    shown: list[tuple[object, ...]] = [
        (when(injection.at_ms), injection.channel, injection.state, injection.episode_id, injection.tokens)
        for injection in report.injections
    ]
    shown += [(when(briefing.at_ms), briefing.what, "shown", "", briefing.tokens) for briefing in report.briefings]
    print_table(["at", "channel", "state", "memory", "tokens#"], shown, empty="Claude was shown nothing here.")
    if report.prompts:
        click.echo(f"\nWhy, prompt by prompt: engram why {session.session_id}")


def _share_read(file: FileTotals) -> str:
    return "all" if file.offset >= file.size else f"{100 * file.offset // max(file.size, 1)} %"


def _waiting(report: SessionReport) -> str:
    """How many prompts no memories were made of yet; "" for none."""
    waiting = sum(stored.extracted_revision != stored.revision for stored in report.turns)
    return f"{counted(waiting, 'turn')}: memories are made of them later" if waiting else ""


# -- ``engram pause``: read, store and inject nothing for a while.


@click.command("pause")
@click.option(
    "--project", metavar="NAME", default=None, help="Only this project: its name or folder (default: everything)."
)
@click.option(
    "--for",
    "seconds",
    type=TimeSpan(),
    default=None,
    metavar="TIME",
    help="How long, such as 30m, 1h or 2d (default: until `engram pause --off`).",
)
@click.option("--off", is_flag=True, help="End the pause (default: start one).")
@click.option("--list", "only_list", is_flag=True, help="Only list what is paused (default: pause).")
@json_option
@pass_workspace
def pause(
    workspace: Workspace, project: str | None, seconds: float | None, off: bool, only_list: bool, as_json: bool
) -> None:
    """Pause a project or everything: nothing is read, stored or injected.

    What is said during the pause is never kept, even if its transcript is read afterwards. What was said before is.

    Example: engram pause --project harbor --for 1h
    """
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        scope = "" if place is None else place.identity
        until_ms = FOREVER_MS if seconds is None else store.now_ms() + int(seconds * 1000)
        what = "everything" if place is None else place.name
        sentence = ""
        if off:
            sentence = f"Resumed {what}." if resume(store, scope) else f"{what} was not paused."
        elif not only_list:
            pause_scope(store, scope, until_ms)
            sentence = f"Paused {what} " + (f"until {when(until_ms)}." if seconds else "until `engram pause --off`.")
        paused = sorted(paused_scopes(store))
    if as_json:
        print_json({"paused": [{"scope": scope or "everything"} for scope in paused]})
    else:
        say(sentence or "\n".join(scope or "everything" for scope in paused) or "Nothing is paused.")
