"""``engram expand``: one memory in full, and with ``--why`` what it rests on and where it was used."""

from __future__ import annotations

from typing import Any

import click

from engram.cli.episode_json import episode_to_json, evidence_places
from engram.cli.options import json_option
from engram.cli.output import iso, one_line, print_facts, print_json, print_table, safe, when
from engram.cli.workspace import Workspace, pass_workspace
from engram.memories.save import require_episode
from engram.models import episode_changes, episode_history, episode_lists, injections
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.search.hits import place_to_json


@click.command("expand")
@click.argument("episode_id", metavar="ID")
@click.option("--why", is_flag=True, help="Also show transcript, line and uuid of what it rests on, its history, and "
              "where it was injected (default: the memory alone).")  # fmt: skip
@json_option
@pass_workspace
def expand(workspace: Workspace, episode_id: str, why: bool, as_json: bool) -> None:
    """Show one memory in full; counts as a use of it.

    Example: engram expand ep_0123456789ab --why
    """
    with workspace.store() as store:
        episode = require_episode(store, episode_id)
        episode_changes.note_access(store, episode_id)
        facts = expand_json(store, episode)
    if as_json:
        print_json(facts)
        return
    _print_memory(facts)
    if why:
        _print_reasons(facts)


def expand_json(store: Store, episode: Episode) -> dict[str, Any]:
    """Everything that is known of a memory."""
    return episode_to_json(store, episode) | {
        "evidence": [place_to_json(place) for place in evidence_places(store, episode)],
        "history": [
            {"at": iso(one.at_ms), "action": one.action, "actor": one.actor, "reason": one.reason, "run": one.run_id,
             "before": dict(one.before), "after": dict(one.after)}
            for one in episode_history.history_of(store, episode.episode_id)
        ],
        "injections": [
            {"session": one.session_id, "channel": one.channel, "state": one.state, "at": iso(one.at_ms),
             "score": one.score, "tokens": one.tokens, "expanded_at": iso(one.expanded_at_ms)}
            for one in injections.injections_of_episode(store, episode.episode_id)
        ],
        "related": [
            {"id": one.episode_id, "summary": one.summary}
            for one in episode_lists.related_episodes(store, episode, episode.project_id)
        ],
    }  # fmt: skip


def _print_memory(facts: dict[str, Any]) -> None:
    marks = [name for name in ("pinned", "lowered") if facts[name]] + [facts["suspect"]] * bool(facts["suspect"])
    print_facts(
        [
            ("id", facts["id"]),
            ("kind", facts["kind"]),
            ("project", facts["project"] or "–"),
            ("scope", facts["scope"]),
            ("importance", facts["importance"]),
            ("status", ", ".join([facts["status"], *marks])),
            ("superseded by", facts["superseded_by"]),
            ("may be stale", facts["stale_reason"]),
            ("made", f"{when(facts['created_at_ms'])} by {facts['extractor']}"),
            ("session", facts["session"]),
            ("used", f"{facts['access_count']} times"),
            ("about", ", ".join(facts["entities"])),
        ]
    )
    click.echo(f"\n{safe(facts['summary'])}\n")
    for fact in facts["facts"]:
        click.echo(f"- {one_line(fact, 400)}")
    if facts["content"].strip() != facts["summary"].strip():
        click.echo(safe(facts["content"]))
    for one in facts["related"]:
        click.echo(f"related: {one['id']} {one_line(one['summary'], 90)}")


def _print_reasons(facts: dict[str, Any]) -> None:
    click.echo()
    print_table(
        ["rests on", "line#", "uuid"],
        [(one["path"] or "(the transcript is gone)", one["line"], one["uuid"]) for one in facts["evidence"]],
        empty="It was saved by hand: it rests on no transcript.",
    )
    click.echo()
    print_table(
        ["at", "what", "who", "why", "changed"],
        [(one["at"], one["action"], one["actor"], one["reason"], ", ".join(one["before"])) for one in facts["history"]],
        empty="no history",
    )
    click.echo()
    print_table(
        ["injected at", "session", "channel", "state", "score#", "tokens#", "expanded"],
        [
            (one["at"], one["session"], one["channel"], one["state"], f"{one['score']:.2f}", one["tokens"],
             one["expanded_at"] or "–")
            for one in facts["injections"]
        ],
        empty="Claude was never shown it.",
    )  # fmt: skip
