"""``engram why``: what became of each prompt of a session, of a memory, or what a prompt would be answered now."""

from __future__ import annotations

from pathlib import Path

import click

from engram.cli.options import json_option, limit_option
from engram.cli.output import one_line, print_facts, print_json, print_table, say, when
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.enums import Channel, Verdict
from engram.errors import BadRequest, NotFound
from engram.ingest.folder import scope_of_folder
from engram.models.entries import is_quotation_id
from engram.models.outcomes import Candidate, Outcome, sessions_with_outcomes
from engram.models.sessions import SessionRow
from engram.models.store import Store
from engram.recollection.explain import Explanation
from engram.recollection.why import MemoryWhy, Moment, SessionWhy, why_memory, why_session
from engram.reports.sessions import find_session_row
from engram.reports.verdicts import REASONS, candidate_to_json
from engram.worker.explain_client import explain_prompt


@click.command("why")
@click.argument("what", metavar="[SESSION|ID]", required=False)
@click.option(
    "--prompt", metavar="TEXT", default=None, help="Explain what this prompt would be answered now (default: none)."
)
@click.option(
    "--project",
    metavar="NAME",
    default=None,
    help="With --prompt: the project that it is asked in, by name or a folder in it (default: the current folder's).",
)
@limit_option(50, "moments")
@json_option
@pass_workspace
def why(
    workspace: Workspace, what: str | None, prompt: str | None, project: str | None, limit: int, as_json: bool
) -> None:
    """Show why Claude was shown what it was, or nothing.

    With a session, prompt by prompt: what was shown, or why it was silent, and how relevant the best memories were
    against what they needed; and which sentences of yours sound like rules and were not kept. The beginning of a
    session's id is enough.

    With the id of a memory or a quotation (q_…): when it was shown, when it nearly was, and why it was not.

    With --prompt: what Claude would be shown now, by the very same decision. Nothing is stored, and nothing counts as
    shown.

    Example: engram why --prompt "Why does the export fail?" --project harbor
    """
    if (what is None) == (prompt is None):
        raise BadRequest("give a session, the id of a memory, or --prompt TEXT; `engram sessions` lists the sessions")
    with workspace.store() as store:
        if prompt is not None:
            _explain(workspace, store, prompt, project, as_json)
        elif what is not None and (what.startswith("ep_") or is_quotation_id(what)):
            _print_memory(why_memory(store, what, limit), as_json)
        elif what is not None:
            session_id, session = _find_session(store, what)
            _print_session(why_session(store, session_id, session), limit, as_json)


def _explain(workspace: Workspace, store: Store, prompt: str, project: str | None, as_json: bool) -> None:
    settings = workspace.settings
    if project is None:
        place = scope_of_folder(store, settings, str(Path.cwd())).project
    else:
        place = find_project(store, settings, project)
    explanation, answered_by, note = explain_prompt(store, settings, prompt, place, with_worker=not workspace.flags)
    if as_json:
        summaries = {memory.candidate.episode_id: memory.summary for memory in explanation.memories}
        memories = [candidate_to_json(memory.candidate, summaries) for memory in explanation.memories]
        more = {"why": _dry_reason(explanation), "memories": memories, "by": answered_by.value, "note": note}
        print_json(explanation.to_json() | more)
        return
    _print_explanation(explanation)
    if note:
        say(note, err=True)


def _print_explanation(explanation: Explanation) -> None:
    print_facts(
        [
            ("verdict", f"{explanation.verdict}: {_dry_reason(explanation)}"),
            ("project", explanation.project or "none: only global memories"),
            ("searched for", one_line(explanation.text)),
            ("best", _against_floor(explanation.score, explanation.floor)),
            ("considered", f"{explanation.candidates} memories" + (", by text alone" * explanation.is_text_only)),
            ("took", f"{explanation.duration_ms} ms"),
        ]
    )
    if explanation.memories:
        click.echo()
        print_table(
            ["memory", "relevance#", "needed#", "verdict", "summary"],
            [(*_candidate_cells(memory.candidate), one_line(memory.summary, 80)) for memory in explanation.memories],
            empty="",
        )
    if explanation.shown:
        click.echo()
        say(explanation.shown)


def _dry_reason(explanation: Explanation) -> str:
    is_shown = explanation.verdict is Verdict.SHOWN
    return "Claude would be shown this" if is_shown else REASONS[explanation.verdict]


def _print_memory(report: MemoryWhy, as_json: bool) -> None:
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
            for outcome in report.outcomes
            for candidate in outcome.considered
        ],
        empty="It was never shown, and never near enough to be recorded.",
    )


def _print_session(report: SessionWhy, limit: int, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        return
    if not report.moments:
        click.echo("No prompt of this session is known.")
    for moment in report.moments[-limit:]:
        _print_moment(moment, report)


def _print_moment(moment: Moment, report: SessionWhy) -> None:
    title = one_line(moment.prompt, 100) or _title(moment)
    say(f"{when(moment.at_ms)}  {title}", bold=True)
    for outcome in moment.outcomes:
        say(f"  {outcome.channel}: {outcome.verdict}: {_reason(outcome)}")
        for candidate in outcome.considered:
            summary = one_line(report.summaries.get(candidate.episode_id, ""), 80)
            say(f"    {'  '.join(_candidate_cells(candidate))}  {summary}")
    if not moment.outcomes:
        say(f"  {moment.verdict}: {REASONS[moment.verdict]}")
    for one in moment.no_rules:
        say(f"  not kept as a rule: “{one_line(one.sentence, 100)}”: {one.refusal}")


def _title(moment: Moment) -> str:
    is_start = any(outcome.channel is Channel.START for outcome in moment.outcomes)
    return "(start of the session)" if is_start else "(a prompt whose transcript was not read)"


def _reason(outcome: Outcome) -> str:
    against = _against_floor(outcome.score, outcome.floor)
    return REASONS[outcome.verdict] + (f" ({against})" if against else "")


def _candidate_cells(candidate: Candidate) -> tuple[str, str, str, str]:
    return candidate.episode_id, f"{candidate.score:.2f}", f"{candidate.floor:.2f}", candidate.verdict.value


def _against_floor(score: float | None, floor: float | None) -> str:
    return "" if score is None or floor is None else f"relevance {score:.2f}, needed {floor:.2f}"


def _find_session(store: Store, text: str) -> tuple[str, SessionRow | None]:
    """Return the session of an id, or of the beginning of one; its row is None if its transcript was not read."""
    try:
        session = find_session_row(store, text)
        return session.session_id, session
    except NotFound:
        matches = sessions_with_outcomes(store, text)
        if len(matches) != 1:
            raise
        return matches[0], None
