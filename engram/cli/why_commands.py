"""``engram why``: why something was shown, or nothing, and what a prompt would be answered now."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import click

from engram.cli.options import (
    end_answer,
    end_with_nothing,
    json_command,
    limit_option,
    require_alone,
)
from engram.cli.output import one_line, print_facts, print_json, print_table, say, when
from engram.cli.results import print_lines, print_remarks, print_rest
from engram.cli.workspace import Workspace, advise, chosen_project
from engram.embedding.load_model import load_model
from engram.enums import Channel, Verdict
from engram.errors import NotFound
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.projects.projects import ProjectRow, list_held_projects, project_by_id
from engram.models.sessions.prompt_outcomes import Candidate, sessions_with_outcomes
from engram.models.sessions.sessions import (
    SessionRow,
    copies_beginning_with,
    list_sessions,
)
from engram.recollection.choose_bites import why_not_in_force
from engram.recollection.recollection_service import Explanation, explain
from engram.recollection.why import MemoryWhy, Moment, SessionWhy, why_memory, why_session
from engram.reports.memory_report import whole_id
from engram.reports.session_report import (
    CANDIDATE_REASONS,
    REASONS,
    candidate_to_json,
    find_session_row,
    trial_reason,
)
from engram.settings import Settings
from engram.trust.display import capitalised, number_of
from engram.worker.recall_client import ANSWER_SECONDS, AnsweredBy, with_silence
from engram.worker.worker_client import ask_worker

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
            _print_last_prompt(store, chosen_project(store, workspace.settings, project), as_json)
        elif (given := whole_id(store, what)).startswith(("ep_", "q_")):
            why_it = why_memory(store, given, limit if as_json else None)
            _print_memory(why_it, find_memory(store, given), limit, as_json)
        else:
            session_id, session = _find_session(store, what)
            _print_session(why_session(store, session_id, session), limit, as_json)


def _print_last_prompt(store: Store, place: ProjectRow | None, as_json: bool) -> None:
    """Print the outcome of the last prompt in a project, or in any project, and what else can be asked."""
    rows = list_sessions(store, _LATEST, project_id=None if place is None else place.id)
    session = next((row for row in rows if "." not in row.session_id), None)
    if session is None and as_json:
        _print_session(SessionWhy("", (), {}), 1, as_json)
    if session is None:
        where = "" if place is None else f" of {one_line(place.name, 60)}"
        end_with_nothing(f"No session{where} is known yet.\n{_ASK_WHY}")
    report = why_session(store, session.session_id, session)
    # A briefing may be recorded after the first prompt.
    prompts = tuple(moment for moment in report.moments if moment.prompt or not _is_start(moment))
    report = replace(report, moments=(prompts or report.moments)[-1:])
    if not as_json:
        of = place if session.project_id is None else project_by_id(store, session.project_id)
        where = f" in {one_line(of.name, 60)}" if of else ""
        elsewhere = ", since this folder is not in any known project" if place is None else ""
        say(f"Your last prompt{where}{elsewhere}, and what Claude was shown with it:")
    _print_session(report, 1, as_json)
    advise(f"\nThe whole session: engram why {session.session_id}\n{_ASK_WHY}")


#: How many of the latest sessions are searched for one that a person started; subagents have sessions, too.
_LATEST = 100
#: Minimum relevance of a memory that is listed; less says nothing about the prompt.
_LEAST_RELEVANCE = 0.05
#: What `engram why` can be asked.
_ASK_WHY = (
    "Why a memory was shown, or was not: engram why ID\nWhat a prompt would be answered now: engram why --prompt TEXT"
)


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
            ("outcome", reason),
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
            ["id", "relevance#", "needed#", "outcome", "text"],
            [
                (
                    *_candidate_cells(memory.candidate),
                    trial_reason(memory.candidate.verdict, CANDIDATE_REASONS),
                    one_line(memory.summary, 80),
                )
                for memory in considered
            ],
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
        ids = [row.candidate.episode_id for row in explanation.memories if row.candidate.verdict is Verdict.NOT_CURRENT]
        memory = find_memory(store, ids[0]) if ids else None
        reason = "" if memory is None else why_not_in_force(memory, store.now_ms())
        if reason:
            return f"{ids[0]} is not current: {reason}"
    return trial_reason(explanation.verdict)


def _print_memory(report: MemoryWhy, memory: Memory | None, limit: int, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        return
    say(one_line(report.summary, 200), bold=True)
    if memory is not None and not memory.is_current:
        by = f" by {memory.superseded_by}: engram expand {memory.superseded_by}" if memory.superseded_by else ""
        print_remarks([f"{memory.status.told}{by}"])
    print_table(
        ["at", "session", "relevance#", "needed#", "outcome"],
        [
            (
                when(outcome.at_ms),
                outcome.session_id,
                f"{candidate.score:.2f}",
                f"{candidate.floor:.2f}",
                f"{CANDIDATE_REASONS[candidate.verdict]}, {outcome.channel.told}".rstrip(", "),
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
        against = _against_floor(outcome.score, outcome.floor)
        told = "; ".join(filter(None, (outcome.channel.told, REASONS[outcome.verdict], against)))
        print_lines(capitalised(told), indent="  ")
        for candidate in outcome.considered:
            summary = one_line(report.summaries.get(candidate.episode_id, ""), 80)
            cells = (*_candidate_cells(candidate), CANDIDATE_REASONS[candidate.verdict])
            print_lines(f"{'  '.join(cells)}: {summary}", indent="    ")
    if not moment.outcomes and with_silence:
        print_lines(capitalised(REASONS[moment.verdict]), indent="  ")
    for refused in moment.no_rules:
        print_lines(f"not kept as a rule: “{one_line(refused.sentence, 100)}”: {refused.refusal}", indent="  ")


def _is_start(moment: Moment) -> bool:
    return any(outcome.channel is Channel.START for outcome in moment.outcomes)


def _candidate_cells(candidate: Candidate) -> tuple[str, str, str]:
    return candidate.episode_id, f"{candidate.score:.2f}", f"{candidate.floor:.2f}"


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
