"""``engram sessions``: the sessions that were read; with an ID, everything that is known of one."""

from __future__ import annotations

import click

from engram.cli.options import json_option, limit_option, project_option
from engram.cli.output import iso, one_line, print_facts, print_json, print_table, when
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.models.sessions import MAX_ROLLING_SUMMARY_CHARACTERS
from engram.reports.sessions import SessionReport, find_session_row, report_session, summarize_sessions
from engram.text.titles import MAX_TITLE_CHARACTERS
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

    For one session: what it is about, if a language model distilled it, its files and how far they were read (in
    bytes), its turns, the memories made of it, and what Claude was shown in it, when, and how many tokens that took.
    The beginning of an ID is enough. `engram why ID` says why, prompt by prompt.

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
    print_table(
        ["session", "title", "agent", "project", "last", "state", "turns#", "memories#", "shown#", "tokens#"],
        [
            (
                summary.session.session_id,
                one_line(summary.title, MAX_TITLE_CHARACTERS),
                title_of(summary.session.agent),
                summary.project,
                when(summary.session.last_at_ms),
                summary.activity.value,
                summary.totals.turns,
                summary.totals.episodes,
                summary.totals.shown,
                summary.totals.tokens,
            )
            for summary in summaries
        ],
        empty="No session was read yet. `engram ingest` reads them now.",
    )


def _print_report(report: SessionReport) -> None:
    summary = report.summary
    session = summary.session
    print_facts(
        [
            ("id", session.session_id),
            ("title", one_line(summary.title, MAX_TITLE_CHARACTERS)),
            ("agent", title_of(session.agent)),
            ("project", summary.project),
            ("folder", session.cwd),
            ("branch", session.branch),
            ("first entry", iso(session.first_at_ms)),
            ("last entry", iso(session.last_at_ms)),
            ("state", summary.activity.value),
            ("messages", session.message_count),
            ("tokens injected", summary.totals.tokens),
            ("prompts", report.prompts),
            ("summary", one_line(session.rolling_summary, MAX_ROLLING_SUMMARY_CHARACTERS)),
        ]
    )
    click.echo()
    print_table(
        ["file", "read#", "bytes#", "lines#"],
        [(file.path, file.offset, file.size, file.lines) for file in report.files],
        empty="No files.",
    )
    click.echo()
    print_table(
        ["at", "prompt", "bytes", "extracted"],
        [
            (
                iso(stored.turn.started_at_ms),
                one_line(stored.turn.prompt, 70),
                f"{stored.turn.start_offset}–{stored.turn.end_offset}",
                "yes" if stored.extracted_revision == stored.revision else "not yet",
            )
            for stored in report.turns
        ],
        empty="No turns.",
    )
    click.echo()
    print_table(
        ["memory", "kind", "title"],
        [(episode.episode_id, episode.kind, one_line(episode.shown_title)) for episode in report.episodes],
        empty="No memories of this session yet.",
    )
    click.echo()
    shown: list[tuple[object, ...]] = [
        (iso(injection.at_ms), injection.channel, injection.state, injection.episode_id, injection.tokens)
        for injection in report.injections
    ]
    shown += [(iso(briefing.at_ms), briefing.what, "shown", "", briefing.tokens) for briefing in report.briefings]
    print_table(["at", "channel", "state", "memory", "tokens#"], shown, empty="Claude was shown nothing here.")
    if report.prompts:
        click.echo(f"\nWhy, prompt by prompt: engram why {session.session_id}")
