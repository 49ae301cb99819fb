"""``engram edit``, ``correct``, ``pin``, ``bad`` and ``feedback``: change one memory."""

from __future__ import annotations

import sys

import click

from engram.cli.options import json_option
from engram.cli.output import one_line, print_json, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.enums import Actor, Importance, Judgement, Scope
from engram.memories.correct import correct_memory
from engram.memories.feedback import (
    judge_memory,
    judge_quotation,
    take_back_judgement,
    take_back_quotation_judgement,
)
from engram.memories.forget_files import withdraw_bites
from engram.memories.save import edit_memory, pin_memory, require_episode
from engram.models.entries import is_quotation_id
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.reports.episode_json import episode_to_json
from engram.reports.memory import report_quotation


@click.command("edit")
@click.argument("episode_id", metavar="ID")
@click.option("--summary", default=None, help="The new line that is injected (default: unchanged).")
@click.option("--content", default=None, help="The new full text; - reads it from standard input (default: unchanged).")
@click.option("--importance", type=click.Choice(Importance.values()), default=None, help="(default: unchanged)")
@click.option("--scope", type=click.Choice(Scope.values()), default=None, help="(default: unchanged)")
@json_option
@pass_workspace
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

    If the new text no longer says the line that is injected, its first sentence becomes that line.

    Example: engram edit ep_0123456789ab --summary "Deploy with make ship"
    """
    with workspace.store() as store:
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
        withdraw_bites(workspace.settings.places, episode_id)
        _report(store, changed, as_json, f"Changed {episode_id}: {one_line(changed.summary, 200)}")
    workspace.wake_worker()


def _in_editor(store: Store, episode_id: str) -> str:
    text = click.edit(require_episode(store, episode_id).content)
    if text is None:
        raise click.Abort
    return text


@click.command("correct")
@click.argument("episode_id", metavar="ID")
@click.argument("text")
@click.option("--why", required=True, help="The reason, which its history keeps.")
@json_option
@pass_workspace
def correct(workspace: Workspace, episode_id: str, text: str, why: str, as_json: bool) -> None:
    """Replace a wrong memory by TEXT; - reads it from standard input.

    The old memory stays as superseded, with the reason in its history. If it was pinned, the new one is.
    `engram consolidate --undo RUN` reverts this.

    Example: engram correct ep_0123456789ab "Deploy with make ship" --why "make deploy is gone"
    """
    content = sys.stdin.read() if text == "-" else text
    with workspace.store() as store:
        done = correct_memory(store, episode_id, content, why, workspace.redactor(), actor=Actor.USER)
        _report(store, done.made, as_json, f"Corrected: {done.made.episode_id} replaces {episode_id}.")
    workspace.wake_worker()


@click.command("pin")
@click.argument("episode_id", metavar="ID")
@click.option("--off", is_flag=True, help="Remove the pin (default: pin it).")
@json_option
@pass_workspace
def pin(workspace: Workspace, episode_id: str, off: bool, as_json: bool) -> None:
    """Pin a memory: it never ages, and every briefing begins with it.

    Example: engram pin ep_0123456789ab
    """
    with workspace.store() as store:
        changed = pin_memory(store, episode_id, is_pinned=not off, actor=Actor.USER)
        _report(store, changed, as_json, f"{'Unpinned' if off else 'Pinned'} {episode_id}.")


@click.command("bad")
@click.argument("episode_id", metavar="ID")
@click.option("--why", default="by hand", help="The reason, which its history keeps (default: by hand).")
@click.option("--off", is_flag=True, help="Take the last judgement of the memory back (default: judge it wrong).")
@json_option
@pass_workspace
def bad(workspace: Workspace, episode_id: str, why: str, off: bool, as_json: bool) -> None:
    """Mark a memory or a quotation (q_…) as wrong: it is no longer injected. `engram forget` deletes.

    --off takes back whatever judgement was the last (helpful, wrong or outdated). For a memory that sank because it was
    shown and never used, it starts counting anew.

    Example: engram bad ep_0123456789ab
    """
    with workspace.store() as store:
        if is_quotation_id(episode_id):
            _judge_quotation(workspace, store, episode_id, None if off else Judgement.WRONG, why, as_json)
        elif off:
            changed, what = take_back_judgement(store, episode_id, actor=Actor.USER)
            _report(store, changed, as_json, f"Took back {what}.")
        else:
            changed = judge_memory(store, episode_id, Judgement.WRONG, why, workspace.redactor(), actor=Actor.USER)
            _report(store, changed, as_json, f"{episode_id} is no longer injected.")
    workspace.wake_worker()


@click.command("feedback")
@click.argument("episode_id", metavar="ID")
@click.argument("judgement", type=click.Choice(Judgement.values()))
@click.option("--why", default="by hand", help="The reason, which its history keeps (default: by hand).")
@json_option
@pass_workspace
def feedback(workspace: Workspace, episode_id: str, judgement: str, why: str, as_json: bool) -> None:
    """Judge a memory or a quotation (q_…) as helpful, wrong or outdated. `engram bad ID --off` takes that back.

    A helpful memory is shown a little more readily. A wrong one is never injected again. An outdated one ends: it is
    archived, and what it had replaced stays replaced. A wrong or outdated quotation is not told again.

    Example: engram feedback ep_0123456789ab outdated --why "the server has moved"
    """
    with workspace.store() as store:
        if is_quotation_id(episode_id):
            _judge_quotation(workspace, store, episode_id, Judgement(judgement), why, as_json)
        else:
            judged = judge_memory(store, episode_id, Judgement(judgement), why, workspace.redactor(), actor=Actor.USER)
            _report(store, judged, as_json, _judged_line(episode_id, Judgement(judgement)))
    workspace.wake_worker()


def _judge_quotation(
    workspace: Workspace, store: Store, quotation_id: str, judgement: Judgement | None, why: str, as_json: bool
) -> None:
    """Judge a quotation, or take its last judgement back (None); what waits to be told of it is withdrawn."""
    if judgement is None:
        sentence = f"Took back {take_back_quotation_judgement(store, quotation_id, actor=Actor.USER)}."
    else:
        judge_quotation(store, quotation_id, judgement, why, workspace.redactor(), actor=Actor.USER)
        sentence = _judged_line(quotation_id, judgement)
    withdraw_bites(workspace.settings.places, quotation_id)
    if as_json:
        print_json(report_quotation(store, quotation_id).to_json())
    else:
        say(sentence)


def _judged_line(what: str, judgement: Judgement) -> str:
    return f"{what} is judged {judgement}. `engram bad {what} --off` reverts."


def _report(store: Store, changed: Episode, as_json: bool, sentence: str) -> None:
    if as_json:
        print_json(episode_to_json(store, changed))
    else:
        say(sentence)
