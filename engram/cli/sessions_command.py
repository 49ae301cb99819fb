"""``engram sessions``: the sessions that were read; of one, everything that is known."""

from __future__ import annotations

from typing import Any

import click

from engram.cli.options import json_option, limit_option, project_option
from engram.cli.output import iso, one_line, print_facts, print_json, print_table, when
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.enums import Scope
from engram.errors import NotFound
from engram.models import counts, episodes, injections
from engram.models import sessions as session_rows
from engram.models.sessions import SessionRow
from engram.models.store import Store
from engram.models.turns import turns_of_session
from engram.settings import Settings


@click.command("sessions")
@click.argument("session_id", metavar="[ID]", required=False)
@project_option
@limit_option(30, "sessions")
@json_option
@pass_workspace
def sessions(workspace: Workspace, session_id: str | None, project: str | None, limit: int, as_json: bool) -> None:
    """List the sessions that were read, the latest first; with an ID, everything that is known of that one.

    A session is active while words come, idle after `idle_seconds` without, and over after `live_seconds`.

    For one session: its files and how far they were read (bytes), its turns, the memories made of it, and what Claude
    was shown in it, when, and what that cost in tokens. The beginning of an ID is enough.

    Example: engram sessions 81d05d22
    """
    with workspace.store() as store:
        if session_id is not None:
            _show_one(workspace, store, _the_session(store, session_id), as_json)
            return
        place = find_project(store, workspace.settings, project)
        totals = counts.count_sessions(store)
        names = {one.id: one.name for one in session_rows.list_projects(store)}
        found = [one for one in session_rows.list_sessions(store) if place is None or one.project_id == place.id]
        states = {one.session_id: _state(one, store.now_ms(), workspace.settings) for one in found[:limit]}
    rows = [_as_json(one, names, totals[one.session_id], states[one.session_id]) for one in found[:limit]]
    if as_json:
        print_json({"sessions": rows})
    else:
        print_table(
            ["session", "project", "last", "state", "turns#", "memories#", "shown#", "tokens#"],
            [
                (one["id"], one["project"], when(session.last_at_ms), one["state"], one["turns"], one["episodes"],
                 one["shown"], one["tokens"])
                for one, session in zip(rows, found, strict=False)
            ],
            empty="No session was read yet; `engram ingest` reads them now.",
        )  # fmt: skip


def _state(session: SessionRow, now_ms: int, settings: Settings) -> str:
    """active while words come, idle after a few minutes without, over after days."""
    silent_seconds = (now_ms - session.last_at_ms) / 1000
    if silent_seconds < settings.idle_seconds:
        return "active"
    return "idle" if silent_seconds < settings.live_seconds else "over"


def _as_json(session: SessionRow, names: dict[int, str], totals: counts.SessionTotals, state: str) -> dict[str, Any]:
    return {
        "id": session.session_id,
        "project": "" if session.project_id is None else names[session.project_id],
        "scope": Scope.GLOBAL if session.is_global else Scope.PROJECT,
        "agent": session.agent,
        "cwd": session.cwd,
        "branch": session.branch,
        "first_at": iso(session.first_at_ms),
        "last_at": iso(session.last_at_ms),
        "state": state,
        "messages": session.message_count,
        "turns": totals.turns,
        "episodes": totals.episodes,
        "shown": totals.shown,
        "tokens": totals.tokens,
    }


def _the_session(store: Store, text: str) -> SessionRow:
    found = session_rows.find_session(store, text)
    if found is not None:
        return found
    some = [one for one in session_rows.list_sessions(store) if one.session_id.startswith(text)]
    if len(some) == 1:
        return some[0]
    if some:
        raise NotFound(f"{len(some)} sessions begin with {text!r}; write more of the id")
    raise NotFound(f"there is no session {text!r}; `engram sessions` lists them")


def _show_one(workspace: Workspace, store: Store, session: SessionRow, as_json: bool) -> None:
    names = {one.id: one.name for one in session_rows.list_projects(store)}
    state = _state(session, store.now_ms(), workspace.settings)
    facts = _as_json(session, names, counts.count_sessions(store)[session.session_id], state)
    facts |= {
        "files": [
            {"path": one.path, "offset": one.offset, "size": one.size, "lines": one.lines, "gone": one.is_gone,
             "error": one.last_error or None}
            for one in counts.files_of_session(store, session.session_id)
        ],
        "turn_list": [
            {"key": one.turn.key, "prompt": one.turn.prompt, "at": iso(one.turn.started_at_ms), "start": one.turn.start_offset,
             "end": one.turn.end_offset, "closed": one.turn.is_closed, "revision": one.revision,
             "extracted_revision": one.extracted_revision, "files": list(one.turn.files)}
            for one in turns_of_session(store, session.id)
        ],
        "episode_list": [
            {"id": one.episode_id, "kind": one.kind, "summary": one.summary, "status": one.status}
            for one in episodes.episodes_of_session(store, session.session_id)
        ],
        "injections": [
            {"episode": one.episode_id, "channel": one.channel, "state": one.state, "at": iso(one.at_ms),
             "score": one.score, "tokens": one.tokens, "expanded_at": iso(one.expanded_at_ms)}
            for one in injections.injections_of_session(store, session.session_id)
        ],
        "briefings": [
            {"what": what, "at": iso(at_ms), "tokens": tokens}
            for what, at_ms, tokens in injections.shown_of_session(store, session.session_id)
        ],
    }  # fmt: skip
    if as_json:
        print_json(facts)
    else:
        _print_one(facts)


def _print_one(facts: dict[str, Any]) -> None:
    print_facts(
        (name, facts[name]) for name in ("id", "project", "cwd", "branch", "first_at", "last_at", "state", "messages")
    )
    print_facts([("tokens injected", facts["tokens"])])
    click.echo()
    print_table(
        ["file", "read#", "bytes#", "lines#"],
        [(one["path"], one["offset"], one["size"], one["lines"]) for one in facts["files"]],
        empty="no file",
    )
    click.echo()
    print_table(
        ["at", "prompt", "bytes", "extracted"],
        [
            (one["at"], one_line(one["prompt"], 70), f"{one['start']}–{one['end']}",
             "yes" if one["extracted_revision"] == one["revision"] else "not yet")
            for one in facts["turn_list"]
        ],
        empty="no turns",
    )  # fmt: skip
    click.echo()
    print_table(
        ["memory", "kind", "summary"],
        [(one["id"], one["kind"], one_line(one["summary"])) for one in facts["episode_list"]],
        empty="no memory was made of this session yet",
    )
    click.echo()
    shown = [(one["at"], one["channel"], one["state"], one["episode"], one["tokens"]) for one in facts["injections"]]
    shown += [(one["at"], one["what"], "shown", "", one["tokens"]) for one in facts["briefings"]]
    print_table(
        ["at", "channel", "state", "memory", "tokens#"], shown, empty="Claude was shown nothing in this session"
    )
