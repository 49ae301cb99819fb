"""``engram expand``: one memory in full; with ``--why``, what it rests on and where it was used."""

from __future__ import annotations

from collections.abc import Sequence

import click

from engram.cli.options import json_option
from engram.cli.output import iso, one_line, print_facts, print_json, print_table, safe, when
from engram.cli.workspace import Workspace, current_folder, pass_workspace
from engram.clock import day_of
from engram.consolidation.graduation import explain_graduation
from engram.memories.save import require_episode
from engram.models import episode_changes
from engram.models.branches import branch_remark
from engram.models.entries import is_quotation_id
from engram.models.episode_history import Change
from engram.models.evidence_places import EvidencePlace
from engram.models.injections import Injection
from engram.reports.memory import MemoryReport, QuotationReport, report_memory, report_quotation, turn_text, who_changed
from engram.reports.usefulness import describe_uses
from engram.transcripts.git_files import read_branch


@click.command("expand")
@click.argument("episode_id", metavar="ID")
@click.option(
    "--why",
    is_flag=True,
    help="Also show the evidence (transcript, line, uuid), the history, and where it was injected "
    "(default: the memory alone).",
)
@json_option
@pass_workspace
def expand(workspace: Workspace, episode_id: str, why: bool, as_json: bool) -> None:
    """Show one memory in full, or the whole turn of a quotation (q_…). This counts as a use of a memory.

    Example: engram expand ep_0123456789ab --why
    """
    with workspace.store() as store:
        if is_quotation_id(episode_id):
            quoted = report_quotation(store, episode_id)
            if as_json:
                print_json(quoted.to_json())
            else:
                _print_quotation(quoted, why)
            return
        episode = require_episode(store, episode_id)
        episode_changes.note_access(store, episode_id)
        report = report_memory(store, episode, read_branch(current_folder()))
        why_not = explain_graduation(store, episode, report.uses)
        if as_json:
            print_json(report.to_json(store) | {"not_graduating": why_not})
            return
    _print_memory(report)
    if why:
        _print_reasons(report, why_not)


def _print_quotation(report: QuotationReport, why: bool) -> None:
    quoted, turn = report.quotation, report.quotation.stored.turn
    print_facts(
        [
            ("id", quoted.quotation_id),
            ("kind", "quotation: said, not concluded"),
            ("said by", quoted.role),
            ("asked", one_line(quoted.asked, 200)),
            ("project", report.project or "–"),
            ("said at", when(quoted.at_ms)),
            ("session", turn.session_id),
            ("branch", turn.branch),
            ("judged", report.judgement or ""),
        ]
    )
    click.echo(f"\n{safe(quoted.text)}\n\nThe whole turn:\n\n{safe(turn_text(report.said))}")
    if why:
        click.echo()
        _print_places([report.place])
        click.echo()
        _print_history(report.history)
        click.echo()
        _print_injections(report.injections)


def _print_memory(report: MemoryReport) -> None:
    episode = report.episode
    flags = [name for name, is_set in (("pinned", episode.is_pinned), ("lowered", episode.is_lowered)) if is_set]
    if episode.suspect:
        flags.append(episode.suspect)
    print_facts(
        [
            ("id", episode.episode_id),
            ("kind", episode.kind),
            ("project", episode.project or "–"),
            ("scope", episode.scope),
            ("importance", episode.importance),
            ("status", ", ".join([episode.status, *flags])),
            ("superseded by", episode.superseded_by),
            ("may be stale", episode.stale_reason),
            ("holds", branch_remark(report.branch)),
            ("from", f"{episode.origin}, {day_of(episode.created_at_ms)}" if episode.origin else ""),
            ("made", f"{when(episode.created_at_ms)} by {episode.extractor}"),
            ("session", episode.session_id),
            ("expanded", f"{episode.access_count} times"),
            ("about", ", ".join(episode.entities)),
            ("answers", " ".join(one_line(question, 200) for question in episode.questions)),
        ]
    )
    click.echo(f"\n{safe(episode.summary)}\n")
    for fact in episode.facts:
        click.echo(f"- {one_line(fact, 400)}")
    if episode.content.strip() != episode.summary.strip():
        click.echo(safe(episode.content))
    for related in report.related:
        click.echo(f"related: {related.episode_id} {one_line(related.summary, 90)}")


def _print_reasons(report: MemoryReport, why_not: str) -> None:
    click.echo()
    print_facts(
        [
            ("use", describe_uses(report.uses, report.episode.episode_id) or "never shown"),
            ("MEMORY.md", f"not a line of it: {why_not}" if why_not else "becomes a line of it"),
        ]
    )
    click.echo()
    _print_places(report.evidence)
    click.echo()
    _print_history(report.history, report.episode.extractor)
    click.echo()
    _print_injections(report.injections)


def _print_places(places: Sequence[EvidencePlace]) -> None:
    print_table(
        ["evidence", "line#", "uuid"],
        [(_source_of(place), place.line or f"at {place.position}", place.uuid) for place in places],
        empty="No evidence: it was saved by hand.",
    )


def _print_history(history: Sequence[Change], extractor: str = "") -> None:
    print_table(
        ["at", "what", "who", "why", "changed"],
        [
            (iso(change.at_ms), change.action, who_changed(change, extractor), change.reason, ", ".join(change.before))
            for change in history
        ],
        empty="No history.",
    )


def _print_injections(injections: Sequence[Injection]) -> None:
    print_table(
        ["injected at", "session", "channel", "state", "score#", "tokens#", "used"],
        [
            (
                iso(injection.at_ms),
                injection.session_id,
                injection.channel,
                injection.state,
                f"{injection.score:.2f}",
                injection.tokens,
                iso(injection.used_at_ms) or "–",
            )
            for injection in injections
        ],
        empty="Claude was never shown it.",
    )


def _source_of(place: EvidencePlace) -> str:
    """Return the file of an entry, and the part of it if it holds several sessions."""
    if not place.path:
        return "(the transcript is gone)"
    return f"{place.path} {place.part}" if place.part else place.path
