"""The commits that turns made, for whoever is shown what was said in them, or asks what was done on a day."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from peewee import JOIN, Query

from engram.models import tables
from engram.models.packed_actions import unpack_facts
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader
from engram.transcripts.commit_message import read_message

#: Facts of a call that did nothing.
_FAILED = ("is_error", "is_refused", "refusal")


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that a turn made."""

    #: "" where the command printed none, as with ``--quiet``.
    sha: str
    subject: str
    #: When its turn began: the commit itself has no time. 0 if that was not asked for.
    turn_at_ms: int = 0
    #: Display name of the project; "" for none, or if that was not asked for.
    project: str = ""


def last_commits_of(store: Reader, turn_ids: Iterable[int]) -> Mapping[int, str]:
    """Turn id → hash of the last commit that the turn made; turns without one are left out."""
    commits = {}
    for row in store.fetch(_actions_of(json.dumps(sorted(set(turn_ids))))):
        for fact in unpack_facts(row.actions):
            if commit := _commit_of(fact):
                commits[row.id] = commit.sha
    return commits


def commits_between(store: Reader, project_id: int | None, start_ms: int, stop_ms: int) -> list[Commit]:
    """Return the commits of the turns that began in a time, the earliest first; None for those of all projects."""
    rows = store.fetch(_turns_between(project_id, start_ms, stop_ms))
    return [
        replace(commit, turn_at_ms=row.started_at_ms, project=row.project_name or "")
        for row in rows
        for fact in unpack_facts(row.actions)
        if (commit := _commit_of(fact) or _unnamed_commit_of(fact))
    ]


def _commit_of(fact: Mapping[str, Any]) -> Commit | None:
    """The commit that a call's output named."""
    # It is stored as "hash subject".
    sha, _, subject = str(fact.get("commit") or "").partition(" ")
    return Commit(sha, subject) if sha else None


def _unnamed_commit_of(fact: Mapping[str, Any]) -> Commit | None:
    """The commit that a call's command made, where its output named none."""
    if any(map(fact.get, _FAILED)):
        return None
    subject, _ = read_message(str(fact.get("command") or ""), by_runner=True)
    return Commit("", subject) if subject else None


@prepared
def _actions_of(turn_ids: str) -> Query:
    return tables.Turn.select(tables.Turn.id, tables.Turn.actions).where(in_json_list(tables.Turn.id, turn_ids))


def _turns_between(project_id: int | None, start_ms: int, stop_ms: int) -> Query:
    turn, project = tables.Turn, tables.Project
    # Naming the projects lets the index of project and time find the turns.
    every = project.alias()
    is_there = turn.project.in_(every.select(every.id)) | turn.project.is_null()
    is_there = is_there if project_id is None else turn.project == project_id
    is_then = (turn.started_at_ms >= start_ms) & (turn.started_at_ms < stop_ms)
    return (
        turn.select(turn.actions, turn.started_at_ms, project.name.alias("project_name"))
        .join(project, JOIN.LEFT_OUTER, on=turn.project == project.id)
        .where(is_there, is_then)
        .order_by(turn.started_at_ms, turn.id)
    )
