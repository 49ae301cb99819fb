"""``engram expand``, ``timeline``, ``save``, ``pin`` and ``undo``: one memory, and lists of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import click

from engram.cli.options import json_command, limit_option, project_option, tell
from engram.cli.output import one_line, print_facts, print_json, print_table, safe, say, when
from engram.cli.results import (
    Result,
    memory_about,
    pause_note,
    print_head,
    print_last,
    print_lines,
    print_remarks,
    print_rest,
    print_titles,
    readable_content,
    say_masked,
    speaker_of,
)
from engram.cli.workspace import Workspace, advise, find_project, require_project_id
from engram.consolidation.graduation import explain_graduation
from engram.consolidation.undo import UndoPlan, plan_undo, undo_last_change
from engram.enums import Actor, Importance, Kind, Scope
from engram.errors import BadRequest
from engram.memories.save import SAVED_KINDS, pin_memory, refuse_session_id, require_memory, save_memory
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes
from engram.models.memories.branches import branch_remark
from engram.models.memories.memory_history import Change
from engram.models.memories.memory_records import Memory, is_local_extractor, new_memory_id
from engram.models.search import memory_lists
from engram.models.sessions.passage_rows import EvidencePlace, is_quotation_id
from engram.models.sessions.sessions import find_session, session_titles
from engram.models.shown.injections import Injection
from engram.paths import current_folder
from engram.recollection.choose_bites import why_not_in_force
from engram.reports.memory_report import (
    RULES,
    MemoryReport,
    QuotationReport,
    changed_in,
    describe_uses,
    done_of,
    evidence_places,
    memory_to_json,
    reason_of,
    report_memory,
    report_quotation,
    undo_in_words,
    who_changed,
    whole_id,
)
from engram.reports.session_report import resume_of
from engram.search.hits import in_folder
from engram.search.named_times import DAYS, UNTIL, DateRange, named_period
from engram.system.clock import impossible_day, iso_or_none, parse_time_ms
from engram.text.splitting import end_of_list
from engram.transcripts.git_files import read_branch
from engram.transcripts.registry import assistant_of
from engram.trust.display import nearest_names, number_of


@click.command("expand")
@click.argument("episode_id", metavar="ID")
@click.option(
    "--why",
    is_flag=True,
    help="Also show the evidence (transcript, line, uuid), the history, when Claude was shown it, and everything else "
    "that is stored (default: only the memory).",
)
@json_command
def expand(workspace: Workspace, episode_id: str, why: bool, as_json: bool) -> None:
    """Show one memory in full, or the whole turn of a quotation (q_…). Showing a memory counts as using it.

    Example: engram expand ep_0123456789ab --why
    """
    with workspace.store() as store:
        episode_id = whole_id(store, episode_id)
        if is_quotation_id(episode_id):
            quoted = report_quotation(store, episode_id)
            session_id = quoted.quotation.stored.turn.session_id
            session, row = session_line(store, session_id), find_session(store, session_id)
            assistant = assistant_of(row.agent if row else "")
            tell(as_json, quoted.to_json(), lambda: _print_quotation(quoted, session, assistant, why))
            return
        memory = require_memory(store, episode_id)
        memory_changes.note_access(store, episode_id)
        report = report_memory(store, memory, read_branch(current_folder()))
        why_not = explain_graduation(store, memory, report.uses)
        if as_json:
            print_json(report.to_json(store) | {"not_graduating": why_not})
            return
        session = session_line(store, memory.session_id)
    _print_memory(report, session, is_whole=why)
    if why:
        _print_reasons(report, why_not)


def session_line(store: Store, session_id: str) -> tuple[str, str]:
    """Return a session's title and the command that resumes it; each is "" if unknown or gone."""
    session = find_session(store, session_id) if session_id else None
    if session is None:
        return "", ""
    resume = in_folder(resume_of(store, session), session.cwd, current_folder())
    return session_titles(store, [session])[session_id], resume


def _print_quotation(report: QuotationReport, session: tuple[str, str], assistant: str, why: bool) -> None:
    quoted, turn = report.quotation, report.quotation.stored.turn
    judged = f"judged {report.judgement}" if report.judgement else ""
    about = [when(quoted.at_ms), report.project, speaker_of(quoted.role, assistant), turn.branch]
    print_head(session[0] or one_line(quoted.asked, 200), about)
    print_remarks([judged])
    whole = next((text for _, text in report.said if quoted.text in text), quoted.text)
    stop = whole.index(quoted.text) + len(quoted.text)
    end = end_of_list(whole, stop)
    is_cut = end.at > stop or end.may_go_on
    print_lines(quoted.text + (" …" if is_cut else ""), indent="  ")
    click.echo()
    for role, texts in groupby(report.said, itemgetter(0)):
        print_lines(f"{speaker_of(role, assistant)}:", bold=True)
        for _, text in texts:
            print_lines(text, indent="  ")
    click.echo()
    print_last(quoted.quotation_id, session[1])
    if why:
        click.echo()
        _print_places([report.place])
        click.echo()
        _print_history(report.history)
        click.echo()
        _print_injections(report.injections)


def _print_memory(report: MemoryReport, session: tuple[str, str], *, is_whole: bool) -> None:
    memory = report.memory
    print_head(memory.title or session[0], memory_about(memory))
    print_remarks(
        [
            f"suspect ({memory.suspect}), do not follow it" if memory.suspect else "",
            f"replaced by {memory.superseded_by}" if memory.superseded_by else "",
            f"may no longer hold: {memory.stale_reason}" if memory.stale_reason else "",
            f"holds {branch_remark(report.branch)}" if report.branch else "",
            memory.origin,
        ]
    )
    print_lines(memory.summary, indent="  ")
    for fact in memory.facts:
        print_lines(f"- {fact}", indent="  ")
    content = readable_content(memory)
    if content:
        click.echo()
        print_lines(content, indent="  ")
    for related in report.related:
        print_lines(f"See also {related.episode_id}: {one_line(related.summary, 90)}", indent="  ", dim=True)
    click.echo()
    print_last(memory.episode_id, session[1])
    if not is_whole:
        return
    click.echo()
    print_facts(
        [
            ("kind", memory.kind),
            ("scope", memory.scope),
            ("importance", memory.importance),
            ("status", memory.status.told),
            ("made", f"{when(memory.created_at_ms)} by {_maker(memory.extractor)}"),
            ("session", memory.session_id),
            ("expanded", f"{number_of(memory.access_count, 'time')}"),
            ("about", ", ".join(memory.entities)),
            ("answers", " ".join(one_line(question, 200) for question in memory.questions)),
        ]
    )


def _maker(extractor: str) -> str:
    """Return what created a memory, in human-readable form; rules are shown without their version."""
    if extractor == "manual":
        return "saving it"
    return f"{RULES} ({extractor})" if is_local_extractor(extractor) else extractor or "an unknown program"


def _print_reasons(report: MemoryReport, why_not: str) -> None:
    click.echo()
    print_facts(
        [
            ("use", describe_uses(report.uses, report.memory.episode_id)),
            ("notes/MEMORY.md", f"not in it: {why_not}" if why_not else "will be added to it"),
        ]
    )
    click.echo()
    _print_places(report.evidence)
    click.echo()
    _print_history(report.history, report.memory.extractor)
    click.echo()
    _print_injections(report.injections)


def _print_places(places: Sequence[EvidencePlace]) -> None:
    if not places:
        say("No evidence: it was saved by hand.")
        return
    say("evidence", bold=True)
    for place in places:
        # Lines that are not wrapped can be copied.
        click.echo(f"  {safe(place.text if place.path else '(the transcript is gone)')}\n    {safe(place.uuid)}")


def _print_history(history: Sequence[Change], extractor: str = "") -> None:
    for change in history:
        told = [done_of(change), f"by {who_changed(change, extractor)}", reason_of(change)]
        changed = [name for name in changed_in(change) if name not in told]
        told += [f"changed: {', '.join(changed)}"] if changed else []
        print_facts([(when(change.at_ms), " · ".join(filter(None, told)))])
    if not history:
        say("No history.")


def _print_injections(injections: Sequence[Injection]) -> None:
    print_table(
        ["shown at", "session", "channel", "state", "score#", "tokens#", "used"],
        [
            (
                when(injection.at_ms),
                injection.session_id,
                injection.channel,
                injection.state,
                f"{injection.score:.2f}",
                injection.tokens,
                when(injection.used_at_ms),
            )
            for injection in injections
        ],
        empty="It was never shown to Claude.",
    )


# -- ``engram timeline``: memories in chronological order.


@click.command("timeline")
@click.argument("around", metavar="[ID|TIME]", required=False)
@project_option
@limit_option(20, "memories")
@json_command
def timeline(workspace: Workspace, around: str | None, project: str | None, limit: int, as_json: bool) -> None:
    """List memories by time, latest first; with a memory's ID or a time of day, only those up to that point.

    For a day or a longer period, only those of that time, in this machine's time zone: yesterday, monday, last week,
    3 days ago, march, 2026-11-05. After "until", all up to its end.

    Example: engram timeline yesterday --project harbor
    """
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        project_id, period = None if place is None else place.id, _period_of(store, around)
        before_ms, after_ms = (None, 0) if period is None else (period.stop_ms - 1, period.start_ms)
        memories = memory_lists.latest_memories(
            store, project_id=project_id, limit=limit, before_ms=before_ms, after_ms=after_ms
        )
        total = memory_lists.count_latest(store, project_id=project_id, before_ms=before_ms, after_ms=after_ms)
        is_empty = not (memories or memory_lists.latest_memories(store, project_id=None, limit=1))
        rows = [
            {
                "id": memory.episode_id,
                "kind": memory.kind,
                "title": memory.shown_title,
                "summary": memory.summary,
                "project": memory.project,
                "scope": memory.scope,
                "importance": memory.importance,
                "created_at": iso_or_none(memory.created_at_ms),
                "pinned": memory.is_pinned,
                "session": memory.session_id,
                "evidence": [place.to_json() for place in evidence_places(store, memory)],
            }
            for memory in memories
        ]
    chosen = f" {'from' if after_ms else 'up to'} {UNTIL.sub('', around)}" if around else ""
    if as_json:
        print_json({"episodes": rows})
    else:
        print_titles(
            [
                Result(memory.headline[0], memory_about(memory), text=memory.headline[1], id=memory.episode_id)
                for memory in memories
            ],
            empty="There are no memories yet: Engram makes them from the sessions that it reads. `engram status` shows "
            "whether it is running; `engram up --once` reads everything now."
            if is_empty
            else f"No memories{f' of {place.name}' if place else ''}{chosen}. "
            "`engram timeline` lists the existing ones.",
        )
        print_rest(total, len(memories))


def _period_of(store: Store, around: str | None) -> DateRange | None:
    """Return the period whose memories are listed; up to an id's or a time of day's moment, it begins at 0."""
    if around is None:
        return None
    if (given := whole_id(store, around)).startswith("ep_"):
        return DateRange(0, require_memory(store, given).created_at_ms + 1)
    if len(around) > 10 and (at_ms := parse_time_ms(around, None)) is not None:
        return DateRange(0, at_ms + 1)
    if (period := named_period(around, store.now_ms())) is not None:
        return period
    if day := impossible_day(around):
        raise BadRequest(f"there is no day {day}; write one such as yesterday, march or 2026-11-05")
    refuse_session_id(store, around)
    near = nearest_names(around, ("today", "yesterday", *DAYS))
    meant = f". Did you mean {near[0]}? Write" if near else "; write"
    raise BadRequest(
        f"{around!r} is neither a memory's id nor a time{meant} one such as yesterday, monday, 3 days ago, 2026-11-05 "
        "or 2026-11-05T10:00"
    )


# -- ``engram save``: save text as a memory.


@click.command("save")
@click.argument("text")
@click.option("--global", "is_global", is_flag=True, help="For all projects (default: for one project).")
@click.option(
    "--project", metavar="NAME", default=None, help="The project's name or folder (default: the current folder's)."
)
@click.option(
    "--summary",
    default=None,
    help="The line that Claude is shown (default: the first sentence, or all of a short text).",
)
@click.option("--high", is_flag=True, help="High importance (default: normal).")
@click.option(
    "--pin", is_flag=True, help="Pin it: it never ages, and every briefing begins with it (default: not pinned)."
)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in SAVED_KINDS]),
    default=None,
    help="The kind of memory (default: preference or decision for a rule such as “From now on …”, else fact).",
)
@click.option("--supersedes", metavar="ID", default=None, help="The memory that this one replaces (default: none).")
@json_command
def save(
    workspace: Workspace,
    text: str,
    is_global: bool,
    project: str | None,
    summary: str | None,
    high: bool,
    pin: bool,
    kind: str | None,
    supersedes: str | None,
    as_json: bool,
) -> None:
    """Save TEXT as a memory; - reads it from standard input. Secrets are masked first.

    Example: engram save --global "Use pnpm, never npm"
    """
    if is_global and project:
        raise click.UsageError("--global and --project can't be combined")
    content = sys.stdin.read() if text == "-" else text
    # One transaction: if the text is refused, no new project is left behind.
    with workspace.store() as store, store.transaction():
        project_id = (
            None
            if is_global
            else require_project_id(
                store, workspace.settings, project, hint=". Name one with --project, or use --global."
            )
        )
        new_id = new_memory_id()
        made = save_memory(
            store,
            content,
            workspace.redactor(),
            scope=Scope.GLOBAL if is_global else Scope.PROJECT,
            importance=Importance.HIGH if high else Importance.NORMAL,
            project_id=project_id,
            supersedes=None if supersedes is None else whole_id(store, supersedes),
            is_pinned=pin,
            actor=Actor.USER,
            summary=summary,
            kind=None if kind is None else Kind(kind),
            episode_id=new_id,
        )
        facts = memory_to_json(store, made)
        paused = pause_note(store, project_id, "Claude is shown nothing")
    workspace.wake_worker()
    if as_json:
        print_json(facts)
        return
    done = "Saved" if made.episode_id == new_id else "Nothing new: already known"
    say(f"{done} as {made.episode_id}, for {one_line(facts['project'] or '', 60) or 'every project'}.")
    say_masked(workspace, content, summary or "")
    if paused:
        advise(paused)


# -- ``engram pin``: pin a memory.


@click.command("pin")
@click.argument("episode_id", metavar="ID")
@click.option("--off", is_flag=True, help="Remove the pin (default: pin it).")
@json_command
def pin(workspace: Workspace, episode_id: str, off: bool, as_json: bool) -> None:
    """Pin a memory: it never ages, and every briefing begins with it.

    Example: engram pin ep_0123456789ab
    """
    with workspace.store() as store:
        episode_id = whole_id(store, episode_id)
        changed = pin_memory(store, episode_id, is_pinned=not off, actor=Actor.USER)
        report_change(store, changed, as_json, f"{'Unpinned' if off else 'Pinned'} {episode_id}.")


def report_change(store: Store, changed: Memory, as_json: bool, sentence: str) -> None:
    """Print what was done to a memory and, if it is not shown to Claude, why."""
    if as_json:
        print_json(memory_to_json(store, changed))
        return
    say(sentence)
    if not changed.is_lowered and (why_not := why_not_in_force(changed, store.now_ms())):
        say(f"It is not shown to Claude: {why_not}.")


# -- ``engram undo``: undo the last change to one memory.


@click.command("undo")
@click.argument("episode_id", metavar="ID")
@click.option("--dry-run", is_flag=True, help="Show what would be undone (default: undo it).")
@json_command
def undo(workspace: Workspace, episode_id: str, dry_run: bool, as_json: bool) -> None:
    """Undo the last change to a memory: an edit, a pin, a judgement, a correction, a merge, a save.

    Changes made together are undone together: for a correction, the new memory is removed, and the old one is valid
    again. The undo is recorded in the history, and a second undo reverts it. What was forgotten remains forgotten.
    `engram consolidate --undo RUN` undoes a whole run.

    Example: engram undo ep_0123456789ab --dry-run
    """
    with workspace.store() as store:
        episode_id = whole_id(store, episode_id)
        if dry_run:
            plan = plan_undo(store, require_memory(store, episode_id))
        else:
            plan = undo_last_change(store, workspace.settings, episode_id, actor=Actor.USER)
        memory = require_memory(store, episode_id)
        facts = {"dry": dry_run, **plan.to_json(), "memory": memory_to_json(store, memory)}
        why_not = "" if dry_run else why_not_in_force(memory, store.now_ms())
    if not dry_run:
        workspace.wake_worker()
    tell(as_json, facts, lambda: _print(plan, dry_run, why_not))


def _print(plan: UndoPlan, is_dry: bool, why_not: str) -> None:
    change = plan.change
    reason = reason_of(change)
    what = f"“{done_of(change)}”" + (f" ({reason})" if reason else "")
    who = who_changed(change, "")
    say(f"{'Would undo' if is_dry else 'Undid'}: {what}, {when(change.at_ms)}, {who}")
    lines = plan.lines()
    # A single line would only repeat what was just printed.
    for line in lines if len(lines) > 1 else ():
        say(f"  {undo_in_words(line)}")
    if why_not:
        say(f"It is now not shown to Claude: {why_not}.")
    if not is_dry:
        advise(f"Running `engram undo {plan.change.episode_id}` again reverts this.")
