"""``engram edit``, ``correct``, ``feedback``, ``review``, ``forget`` and ``purge``: change memories."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import click

from engram.cli.memory_commands import report_change
from engram.cli.options import (
    DefaultGroup,
    answered,
    as_typed,
    choose,
    end_with_nothing,
    json_command,
    project_option,
    require_agreement,
    tell,
)
from engram.cli.output import has_terminal, one_line, print_json, print_table, safe, say, when
from engram.cli.results import named_memory, say_masked
from engram.cli.workspace import Workspace, advise, as_called_here, find_project
from engram.enums import Actor, Importance, Judgement, Scope
from engram.errors import BadRequest, NotFound
from engram.forgetting.forget import ForgetReport, forget_memory
from engram.forgetting.forget_plan import ForgetPreview, plan_forget, preview_forget
from engram.forgetting.purge import ARCHIVED_DAYS, PurgePlan, PurgeReport, plan_named, plan_purge, purge_to_json
from engram.forgetting.purge import purge as run_purge
from engram.memories.correct import (
    correct_memory,
    judge_memory,
    judge_quotation,
    keep_both,
    keep_one,
    take_back_judgement,
    take_back_quotation_judgement,
)
from engram.memories.save import edit_memory, require_memory, trust_memory
from engram.models.engine.transaction import Store
from engram.models.sessions.passage_rows import is_quotation_id
from engram.reports.memory_report import report_quotation, whole_id
from engram.reports.open_contradictions import OpenContradiction, list_contradictions
from engram.reports.session_report import find_session_row
from engram.system.clock import day_of
from engram.text.titles import in_words
from engram.trust.display import number_of


@click.command("edit")
@click.argument("episode_id", metavar="ID")
@click.option("--summary", default=None, help="The new line that Claude is shown (default: unchanged).")
@click.option(
    "--content",
    default=None,
    callback=as_typed,
    help="The new full text; - reads it from standard input (default: unchanged, except that a new summary replaces "
    "the old one in it).",
)
@click.option("--importance", type=click.Choice(Importance.values()), help="The new importance (default: unchanged).")
@click.option("--scope", type=click.Choice(Scope.values()), help="The new scope (default: unchanged).")
@json_command
def edit(
    workspace: Workspace,
    episode_id: str,
    summary: str | None,
    content: str | None,
    importance: str | None,
    scope: str | None,
    as_json: bool,
) -> None:
    """Change a memory; its history keeps the old text. Without an option, the full text opens in your editor.

    If the new text no longer contains the line that Claude is shown, its first sentence becomes that line.

    Example: engram edit ep_0123456789ab --summary "Deploy with make ship"
    """
    with workspace.store() as store:
        episode_id = whole_id(store, episode_id)
        if content == "-":
            content = sys.stdin.read()
        if summary is content is importance is scope is None:
            content = _in_editor(store, episode_id)
        changed = edit_memory(
            store,
            episode_id,
            workspace.redactor(),
            summary=summary,
            content=content,
            importance=None if importance is None else Importance(importance),
            scope=None if scope is None else Scope(scope),
            actor=Actor.USER,
        )
        report_change(store, changed, as_json, f"Changed {episode_id}: {one_line(changed.summary, 200)}")
        if not as_json:
            say_masked(workspace, summary or "", content or "")
    workspace.wake_worker()


def _in_editor(store: Store, episode_id: str) -> str:
    """Open a memory's text in the user's editor, and return the edited text. Raises BadRequest without a terminal."""
    content = require_memory(store, episode_id).content
    if not has_terminal():
        raise BadRequest(
            "there is no terminal to open an editor in: give the new text with --content (- reads it from standard "
            "input), or the new line with --summary"
        )
    text = click.edit(content)
    if text is None:
        end_with_nothing("Nothing was changed.")
    return text


@click.command("correct")
@click.argument("episode_id", metavar="ID")
@click.argument("text")
@click.option("--why", metavar="REASON", required=True, callback=as_typed, help="The reason, recorded in the history.")
@json_command
def correct(workspace: Workspace, episode_id: str, text: str, why: str, as_json: bool) -> None:
    """Replace a wrong memory with TEXT; - reads it from standard input.

    The old memory is kept, marked as replaced, with the reason in its history. If it was pinned, the new one is pinned.
    `engram undo` with the id of the new memory reverts this.

    Example: engram correct ep_0123456789ab "Deploy with make ship" --why "make deploy is gone"
    """
    content = sys.stdin.read() if text == "-" else text
    with workspace.store() as store:
        episode_id = whole_id(store, episode_id)
        done = correct_memory(store, episode_id, content, why, workspace.redactor(), actor=Actor.USER)
        report_change(store, done.made, as_json, f"Corrected: {done.made.episode_id} replaces {episode_id}.")
        if not as_json:
            say_masked(workspace, content)
    workspace.wake_worker()


@click.command("feedback")
@click.argument("memory_id", metavar="ID")
@click.argument("judgement", type=click.Choice(Judgement.values()), required=False)
@click.option(
    "--why", default="by hand", callback=as_typed, help="The reason, recorded in the history (default: by hand)."
)
@click.option("--off", is_flag=True, help="Withdraw the last judgement on the memory (default: judge it).")
@json_command
def feedback(workspace: Workspace, memory_id: str, judgement: str | None, why: str, off: bool, as_json: bool) -> None:
    """Judge a memory or a quotation (q_…) as helpful, wrong or outdated, or withdraw the last judgement.

    A helpful memory is shown a little more readily. A wrong one is never shown again; `engram forget` deletes it. An
    outdated one is archived, and the memory that it had replaced remains replaced. A wrong or outdated quotation is
    not shown again.

    --off withdraws the last judgement, whatever it was. If a memory ranks lower because it was shown and never used,
    that count starts again from zero.

    Example: engram feedback ep_0123456789ab outdated --why "the server has moved"
    """
    if off == (judgement is not None):
        raise click.UsageError(
            "give a judgement (helpful, wrong or outdated), or only --off, which withdraws the last judgement"
        )
    judged = None if judgement is None else Judgement(judgement)
    with workspace.store() as store:
        memory_id = whole_id(store, memory_id)
        if is_quotation_id(memory_id):
            _judge_quotation(workspace, store, memory_id, judged, why, as_json)
        elif judged is None:
            changed, what = take_back_judgement(store, memory_id, actor=Actor.USER)
            report_change(store, changed, as_json, f"Withdrew {what}.")
        else:
            changed = judge_memory(store, memory_id, judged, why, workspace.redactor(), actor=Actor.USER)
            report_change(store, changed, as_json, _judged_line(memory_id, judged))
    workspace.wake_worker()


def _judge_quotation(
    workspace: Workspace, store: Store, quotation_id: str, judgement: Judgement | None, why: str, as_json: bool
) -> None:
    if judgement is None:
        sentence = f"Withdrew {take_back_quotation_judgement(store, quotation_id, actor=Actor.USER)}."
    else:
        judge_quotation(store, quotation_id, judgement, why, workspace.redactor(), actor=Actor.USER)
        sentence = _judged_line(quotation_id, judgement)
    tell(as_json, report_quotation(store, quotation_id).to_json(), sentence)


def _judged_line(what: str, judgement: Judgement) -> str:
    # The caller says why an outdated memory is no longer shown.
    is_hidden = judgement is Judgement.WRONG or (judgement is Judgement.OUTDATED and is_quotation_id(what))
    shown = " It is no longer shown to Claude." if is_hidden else ""
    return as_called_here(f"{what} is judged {judgement}. `engram feedback {what} --off` reverts this.{shown}")


# -- ``engram forget``: delete a memory everywhere, with the text that no other memory rests on.


@click.command("forget")
@click.argument("episode_id", metavar="ID")
@click.option(
    "--also-source/--only-memory",
    "also_source",
    default=None,
    help="Delete the whole turns that the memory rests on, with every memory that rests on them; or only this memory "
    "and the words that no other memory rests on (default: ask; with --yes, only the memory).",
)
@click.option("--yes", is_flag=True, help="Don't ask (default: show what will be deleted, and ask).")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, word for word (default: delete it).")
@json_command
def forget(
    workspace: Workspace, episode_id: str, also_source: bool | None, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Permanently delete a memory with the words that only it rests on, a quotation (q_…), or a whole session.

    They are deleted from everything that Engram keeps: the database, the search indexes, the history, the notes, and
    the exports and backups in the memory folder. Reading, extracting, importing or restoring does not bring them back.
    Anything that another memory still needs is kept and listed. For a quotation, the words of the whole message are
    deleted, with the memories that were made only from them or that repeat them. For a session, specified by the id
    that `engram sessions` prints, all its turns, its title and the record of what was shown in it are deleted, with
    every memory that rests on one of the turns or was saved in the session. Anything said in it later is stored as
    usual. The transcript belongs to Claude Code and is not changed.

    --dry-run shows what would be deleted and what would be kept, and deletes nothing.

    Example: engram forget ep_0123456789ab --only-memory
    """
    with workspace.store() as store:
        episode_id = _whole_target(store, episode_id)
        if also_source is False and _is_session(episode_id):
            raise BadRequest(
                f"{episode_id} is a session, and forgetting it deletes all its turns: leave out --only-memory, or give "
                f"the id of one of its memories, as `engram sessions {episode_id}` prints it"
            )
        if dry_run:
            preview = preview_forget(store, workspace.places, episode_id, also_source=bool(also_source))
            if as_json:
                print_json(preview.to_json())
            else:
                _show(preview, is_whole=True)
                click.echo("Nothing was deleted.")
            return
        if _is_session(episode_id):
            workspace.read_rest(store, episode_id)  # it would come back
        if not yes:
            if as_json:
                plan_forget(store, episode_id)  # reporting that there is no such memory needs no --yes
                raise BadRequest("--json can't ask: add --yes")
            also_source = _confirm(store, workspace, episode_id, False if _is_session(episode_id) else also_source)
        report = forget_memory(store, workspace.places, episode_id, also_source=bool(also_source), actor=Actor.USER)
    workspace.wake_worker()
    tell(as_json, _facts(report), lambda: say(f"Forgotten: {report.describe()}"))


def _whole_target(store: Store, text: str) -> str:
    """Return the full id of a memory, quotation or session, given its beginning."""
    text = whole_id(store, text)
    if not _is_session(text):
        return text
    try:
        return find_session_row(store, text).session_id
    except NotFound as error:
        raise NotFound(f"{error}; recall and timeline print the ids of memories") from error


def _is_session(text: str) -> bool:
    """Return True if an id belongs to neither a memory nor a quotation."""
    return not text.startswith(("ep_", "q_"))


def _confirm(store: Store, workspace: Workspace, episode_id: str, also_source: bool | None) -> bool:
    """Show what would be deleted, and ask. Return whether to delete whole turns."""
    _show(preview_forget(store, workspace.places, episode_id, also_source=bool(also_source)), is_whole=False)
    advise(f"To see every word of it: engram forget {episode_id} --dry-run")
    with_source = plan_forget(store, episode_id, also_source=True) if also_source is None else None
    if with_source is not None and with_source.turn_ids:
        say(
            f"With the source: {number_of(len(with_source.memories), 'memory')} and "
            f"{number_of(len(with_source.turn_ids), 'whole turn')}."
        )
        with answered("add --yes for the memory only, or --yes --also-source"):
            choice = choose("Forget only this, or also the source?", ["memory", "source", "nothing"], "nothing")
        if choice == "nothing":
            end_with_nothing("Nothing was changed.")
        return choice == "source"
    require_agreement("Delete this for good?")
    return bool(also_source)


def _show(preview: ForgetPreview, *, is_whole: bool) -> None:
    """Print the totals, as the later report does, and the title and day of everything that would be deleted.

    The totals come last, next to the question, unless everything is printed in full, which may take many screens.

    Args:
        is_whole: print the full text of memories and turns instead of one line for each.
    """
    plan = preview.plan

    def words(*texts: str) -> str:
        if not is_whole:
            return one_line(" ".join(texts))
        return f"\n{' ' * 11}".join(line for text in texts for line in text.strip().splitlines())

    total = f"In all: {preview.account()}."
    if is_whole:
        say(total)
    if plan.session_id:
        say(f"session    “{one_line(plan.title)}” ({plan.session_id})")
    if plan.quotation is not None:
        say(f"quotation  “{words(plan.quotation.text if is_whole else plan.title)}”, {when(plan.quotation.at_ms)}")
    for memory in plan.memories:
        more = [text for text in (in_words(memory.content), *memory.facts) if is_whole and text != memory.summary]
        say(f"memory     {named_memory(memory, words(memory.summary, *more))}")
    for stored in preview.turns:
        said = [block.text for block in stored.turn.said] if is_whole else [stored.turn.prompt]
        say(f"turn       “{words(*said)}”, {when(stored.turn.started_at_ms)}")
    printed: dict[str, set[str]] = {}
    for entry in preview.entries:
        where = entry.said_in or entry.place.session_id
        earlier = printed.setdefault(where, set())
        # A command is part of its call's message and of its result's.
        texts = [text for text in entry.texts if text not in earlier]
        earlier.update(texts)
        if texts:
            say(f"words      “{words(*texts)}”, said in {where}")
        else:
            say(f"words      of a message in {where}: {'the same again' if entry.texts else 'none are stored'}")
    for name in preview.files:
        say(f"lines      in {one_line(name, 200)}")
    if plan.cut is not None:
        say(f"changes    {plan.cut.episode_id}, which then says: “{one_line(plan.cut.summary)}”")
    for memory in plan.restored:
        say(f"comes back {named_memory(memory)}: what replaced it is deleted")
    for memory in plan.staying:
        say(f"kept       {named_memory(memory)}, without what it quotes")
    needed_lines: list[str] = []
    for needed in plan.needed:
        needers = "; ".join(f"“{one_line(memory.summary, 80)}” ({memory.episode_id})" for memory in needed.needed_by)
        in_session = f" in {needed.said_in}" if needed.said_in else ""
        needed_lines.append(f"kept       a message{in_session}: {needers} rests on it too")
    for line, times in Counter(needed_lines).items():
        say(line if times == 1 else line.replace("a message", number_of(times, "message"), 1))
    if preview.foreign:
        say(f"kept       its words in {one_line(', '.join(preview.foreign))}, another program's database")
    if not is_whole:
        say(total)


def _facts(report: ForgetReport) -> dict[str, object]:
    plan = report.plan
    return {
        "forgotten": list(plan.episode_ids),
        "summary": plan.title,
        "turns": len(plan.turn_ids),
        "entries": len(plan.cut_entries),
        "needed": plan.needed_to_json(),
        "restored": [memory.episode_id for memory in plan.restored],
        "files": list(report.files),
        "backups": report.backups,
        "dropped_backups": report.dropped_backups,
        "searched_backups": report.searched_backups,
        "foreign": list(report.foreign),
        "not_wiped": report.not_wiped,
        "staying": [memory.episode_id for memory in plan.staying],
    }


# -- ``engram purge``: delete archived and superseded memories for good.

#: Maximum number of memories to list; the rest are only counted.
_LISTED = 50
#: Maximum age that can be given, in days; times that are much older overflow.
MAX_DAYS = 99_999


@click.command("purge")
@click.argument("episode_ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--archived",
    "archived_days",
    type=click.IntRange(0, MAX_DAYS),
    default=None,
    metavar="DAYS",
    help=f"Purge archived memories that have not been changed or used for this many days (default: {ARCHIVED_DAYS}, "
    "if neither --superseded nor an ID is given).",
)
@click.option(
    "--superseded",
    "superseded_days",
    type=click.IntRange(0, MAX_DAYS),
    default=None,
    metavar="DAYS",
    help="Purge replaced memories that have not been changed or used for this many days (default: none).",
)
@project_option
@click.option(
    "--yes", is_flag=True, help="Delete them; this can't be undone (default: only show what would be deleted)."
)
@json_command
def purge(
    workspace: Workspace,
    episode_ids: tuple[str, ...],
    archived_days: int | None,
    superseded_days: int | None,
    project: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete archived and replaced memories for good, with their words and history.

    Consolidating only archives; purging frees the space. Without --yes, this only shows what would be deleted. Pinned
    memories are never purged, and important ones only if you name them. The turns that the purged memories rest on
    stay searchable, and the same memories are not made again. A purge can't be undone, and neither can a run of
    `engram consolidate` that changed a purged memory. Older backups still contain what was purged; to delete something
    everywhere, use `engram forget`.

    Example: engram purge --archived 365 --yes
    """
    with workspace.store() as store:
        plan = _plan(workspace, store, episode_ids, archived_days, superseded_days, project)
        report = run_purge(store, plan, actor=Actor.USER) if yes else None
    if report is not None and report.episode_ids:
        workspace.wake_worker()
    tell(as_json, purge_to_json(plan, report), lambda: _print(plan, report))


def _plan(
    workspace: Workspace,
    store: Store,
    ids: tuple[str, ...],
    archived: int | None,
    superseded: int | None,
    project: str | None,
) -> PurgePlan:
    if ids:
        if project is not None or archived is not None or superseded is not None:
            raise click.UsageError("give IDs or --archived/--superseded, not both")
        return plan_named(store, [whole_id(store, given) for given in ids])
    place = find_project(store, workspace.settings, project)
    return plan_purge(
        store,
        archived_days=ARCHIVED_DAYS if archived is None and superseded is None else archived,
        superseded_days=superseded,
        project_id=None if place is None else place.id,
    )


def _print(plan: PurgePlan, report: PurgeReport | None) -> None:
    if report is None:
        print_table(
            ["id", "status", "kind", "summary"],
            [
                (memory.episode_id, memory.status, memory.kind, one_line(memory.summary, 90))
                for memory in plan.memories[:_LISTED]
            ],
            empty="There is nothing to purge.",
        )
        if len(plan.memories) > _LISTED:
            click.echo(f"… and {len(plan.memories) - _LISTED} more")
    if plan.spared:
        kept = number_of(plan.spared, "more memory")
        say(f"{kept} pinned or important: kept. To purge one, unpin it if necessary, and give its ID.")
    if report is not None:
        kept = f"; kept {report.kept} that have changed since" if report.kept else ""
        say(
            f"Purged {number_of(len(report.episode_ids), 'memory')} for good{kept}."
            if report.episode_ids or report.kept
            else "There is nothing to purge."
        )
    elif plan.memories:
        say(
            f"{number_of(len(plan.memories), 'memory')}, {plan.size_bytes / 1000:,.0f} KB. Nothing was deleted. To "
            "delete them for good, add --yes; that can't be undone."
        )


# -- ``engram review``: memories that contradict each other, and the decision between them.


@click.group("review", cls=DefaultGroup)
def review() -> None:
    """List what needs your decision, or decide: memories that contradict each other or look like orders.

    Only you can replace what you pinned, saved, said or chose. If a later memory or a correction by Claude disagrees
    with it, or two of your rules name rivals ("use npm", "use pnpm"), both stay valid until you decide here. Also
    listed are memories that your own files (CLAUDE.md, rules, auto memory) contradict, and suspect memories, which
    look like an order to Claude.

    Example: engram review
    """


@review.command("list")
@json_command
def list_command(workspace: Workspace, as_json: bool) -> None:
    """List what needs your decision.

    Example: engram review list --json
    """
    with workspace.store() as store:
        found = list_contradictions(store)
    if as_json:
        print_json(found.to_json())
        return
    _print_pending(
        "Contradict each other",
        [_contradiction_lines(waiting) for waiting in found.waiting],
        "→ `engram review keep ID` keeps one of the two, `engram review both NUMBER` keeps both.\n",
    )
    _print_pending(
        "Contradicted by your own files",
        [
            (
                f"   {by_file.memory.episode_id}  {one_line(by_file.memory.summary)}",
                f"   {' ' * 15}  but {one_line(by_file.file_says)}",
            )
            for by_file in found.of_files
        ],
        "→ `engram correct ID` or `engram forget ID` changes a memory; your files are never changed.\n",
    )
    _print_pending(
        "Look like orders to Claude, and are not shown to it",
        [
            (
                f"   {memory.episode_id}  {one_line(memory.summary)}",
                f"   {' ' * 15}  {memory.suspect}; {memory.place}, {day_of(memory.created_at_ms)}",
            )
            for memory in found.suspects
        ],
        "→ `engram review trust ID` lets it be shown, `engram feedback ID wrong` hides it for good.\n",
    )
    if not found.count:
        say("No decision is pending: no memories contradict each other, and none are held back from Claude.")


def _print_pending(heading: str, pending: Sequence[Iterable[str]], advice: str) -> None:
    """Print the pending decisions of one kind, and then how to make them. Print nothing if there are none."""
    if not pending:
        return
    say(f"{heading}: {len(pending)}", bold=True)
    for lines in pending:
        for line in lines:
            say(line)
    advise(advice)


def _contradiction_lines(waiting: OpenContradiction) -> Iterator[str]:
    yield f"{waiting.contradiction.id}: {waiting.contradiction.reason}"
    for side in (waiting.older, waiting.newer):
        pinned = ", pinned" if side.is_pinned else ""
        yield f"   {side.episode_id}  {one_line(side.summary)} ({side.voice}{pinned}, {day_of(side.created_at_ms)})"


@review.command("keep")
@click.argument("episode_id", metavar="ID")
@json_command
def keep(workspace: Workspace, episode_id: str, as_json: bool) -> None:
    """Keep the memory ID; it replaces those that contradict it. `engram consolidate --undo RUN` reverts this.

    Example: engram review keep ep_0123456789ab
    """
    with workspace.store() as store:
        lines = keep_one(store, whole_id(store, episode_id), actor=Actor.USER)
    _report_decision(workspace, lines, as_json)


@review.command("both", short_help="Keep both memories of a contradiction.")
@click.argument("which", metavar="NUMBER|ID")
@json_command
def both(workspace: Workspace, which: str, as_json: bool) -> None:
    """Keep both memories of contradiction NUMBER, or of all contradictions of the memory ID. You are not asked again.

    Example: engram review both 3
    """
    with workspace.store() as store:
        lines = keep_both(store, whole_id(store, which), actor=Actor.USER)
    _report_decision(workspace, lines, as_json)


@review.command("trust")
@click.argument("episode_id", metavar="ID")
@json_command
def trust(workspace: Workspace, episode_id: str, as_json: bool) -> None:
    """Allow a suspect memory to be shown to Claude. Its text looks like an order to Claude, so read it first.

    `engram undo ID` reverts this. `engram feedback ID wrong` hides it for good.

    Example: engram review trust ep_0123456789ab
    """
    with workspace.store() as store:
        episode_id = whole_id(store, episode_id)
        trust_memory(store, episode_id, actor=Actor.USER)
    _report_decision(workspace, [f"trust {episode_id}"], as_json)


def _report_decision(workspace: Workspace, lines: list[str], as_json: bool) -> None:
    workspace.wake_worker()
    tell(as_json, {"decided": lines}, lambda: click.echo(safe("\n".join(lines))))
