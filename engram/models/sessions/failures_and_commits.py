"""Failed commands, commits and pull requests of turns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from peewee import JOIN, Query

from engram.models import tables
from engram.models.engine.statement import grouped, in_json_list, is_same, prepared, unpack_facts
from engram.models.engine.transaction import Reader, Tx, Value, asks_rows, asks_values
from engram.models.sessions.stored_turns import StoredTurn, turns_by_row
from engram.text.shell import programs_of
from engram.transcripts.agents import PullRequest
from engram.transcripts.calls import read_message
from engram.transcripts.turns import Action

# -- Failed commands: find earlier ones with the same error, and the programs that have failed in a project.

#: Maximum number of rows of earlier failures that are compared; the latest are taken.
MAX_ROWS = 500


@dataclass(frozen=True, slots=True)
class EarlierFailure:
    """A failed command of a stored turn whose error partly matches that of another."""

    turn_id: int
    #: Position of the call among the turn's tool calls.
    seq: int
    session_id: str
    programs: frozenset[str]
    #: The keys that both errors have.
    shared_keys: frozenset[int]


def replace_failed_calls(tx: Tx, turn_id: int, actions: Iterable[Mapping[str, object] | Action]) -> None:
    """Replace the stored failed commands of a turn.

    Args:
        actions: the turn's tool calls in order, as records or as their unpacked facts.
    """
    rows: list[dict[str, Value]] = [
        {"turn_id": turn_id, "seq": seq, "error_key": key, "programs": "\n".join(programs)}
        for seq, action in enumerate(actions)
        for programs, keys in [_failure_of(action)]
        if programs
        for key in keys
    ]
    tx.run(_delete_of_turn(turn_id))
    tx.insert_many(tables.FailedCall, rows)


def earlier_failures(store: Reader, project_id: int, error_keys: Collection[int]) -> list[EarlierFailure]:
    """Return the failed commands of a project that have one of the given keys, latest first."""
    calls: dict[tuple[int, int], EarlierFailure] = {}
    for row in store.fetch(_with_keys(project_id, error_keys)):
        place = (int(row.turn_id), int(row.seq))
        known = calls.get(place)
        calls[place] = EarlierFailure(
            turn_id=place[0],
            seq=place[1],
            session_id=row.session_id,
            programs=frozenset(row.programs.splitlines()),
            shared_keys=(known.shared_keys if known else frozenset()) | {int(row.error_key)},
        )
    return list(calls.values())


@asks_rows(lambda rows: sorted({program for row in rows for program in row.programs.splitlines()}))
def failed_programs(project_id: int, but_session: str) -> Query:
    """Return the programs that have failed in other sessions of a project, sorted."""
    call, turn, session = tables.FailedCall, tables.Turn, tables.Session
    query = call.select(call.programs).distinct().join(turn).join(session)
    return query.where((turn.project == project_id) & (session.session_id != but_session))


def turns_from(store: Reader, turn_id: int, limit: int) -> list[StoredTurn]:
    """Return a turn and the turns of its project that follow it in its session, in the order of the transcript."""
    ids = _following(store, turn_id, limit)
    return sorted(turns_by_row(store, ids), key=lambda turn: ids.index(turn.id))


def _failure_of(action: Mapping[str, object] | Action) -> tuple[Sequence[str], Sequence[int]]:
    """Return the programs and error keys of a tool call, both empty for a call that did not fail."""
    if isinstance(action, Action):
        return (programs_of(action.command), action.error_keys) if action.error_keys else ((), ())
    keys = action.get("error_keys")
    command = action.get("command")
    if not isinstance(keys, list) or not isinstance(command, str):
        return (), ()
    return programs_of(command), [key for key in keys if isinstance(key, int)]


@prepared
def _delete_of_turn(turn_id: int) -> Query:
    return tables.FailedCall.delete().where(tables.FailedCall.turn == turn_id)


@prepared
def _with_keys(project_id: int, keys: Collection[int]) -> Query:
    call, turn, session = tables.FailedCall, tables.Turn, tables.Session
    query = call.select(call.turn, call.seq, call.error_key, call.programs, session.session_id)
    query = query.join(turn).join(session)
    query = query.where(in_json_list(call.error_key, keys) & (turn.project == project_id))
    return query.order_by(turn.started_at_ms.desc(), call.turn.desc(), call.seq.desc()).limit(MAX_ROWS)


@asks_values
def _following(turn_id: int, limit: int) -> Query:
    turn, first = tables.Turn, tables.Turn.alias()
    query = turn.select(turn.id).join(
        first,
        on=(first.session == turn.session)
        & (first.transcript == turn.transcript)
        & is_same(turn.project, first.project)
        & (first.id == turn_id),
    )
    query = query.where(turn.start_offset >= first.start_offset)
    return query.order_by(turn.start_offset, turn.id).limit(limit)


# -- The commits that turns made.

#: Facts of a call that had no effect.
_FAILED = ("is_error", "is_refused", "refusal")


@dataclass(frozen=True, slots=True)
class Commit:
    #: "" if the command printed none, as with ``--quiet``.
    sha: str
    subject: str
    #: When its turn began, because the time of the commit itself isn't stored; 0 if not requested.
    turn_at_ms: int = 0
    #: Display name of the project; "" if there is none, or if not requested.
    project: str = ""


@asks_rows(
    lambda rows: {
        int(row.id): commit.sha for row in rows for fact in unpack_facts(row.actions) if (commit := _commit_of(fact))
    }
)
def last_commits_of(turn_ids: Iterable[int]) -> Query:
    """Return turn id → hash of the last commit that the turn made; turns without a commit are left out."""
    return tables.Turn.select(tables.Turn.id, tables.Turn.actions).where(in_json_list(tables.Turn.id, turn_ids))


@dataclass(frozen=True, slots=True)
class EditedFiles:
    """The files that a turn of a project edited, as written."""

    turn_id: int
    project_id: int
    cwd: str
    ended_at_ms: int
    files: tuple[str, ...]
    #: True if the turn also made a commit.
    is_committed: bool


def edited_files(store: Reader, turn_ids: Iterable[int]) -> list[EditedFiles]:
    """Return the files that turns edited with editing tools. Turns without any, or without a project, are left out."""
    found: list[EditedFiles] = []
    for row in store.fetch(_turns_in_projects(turn_ids)):
        facts = unpack_facts(row.actions)
        edits = (fact.get("files") for fact in facts if fact.get("is_edit") and not fact.get("is_error"))
        files = dict.fromkeys(str(file) for edit in edits if isinstance(edit, list) for file in edit)
        ended_at_ms = row.ended_at_ms or row.started_at_ms
        if files and ended_at_ms:
            is_committed = any(_commit_of(fact) or _unnamed_commit_of(fact) for fact in facts)
            found.append(EditedFiles(row.id, row.project_id, row.cwd, ended_at_ms, tuple(files), is_committed))
    return found


def commits_between(store: Reader, project_id: int | None, start_ms: int, stop_ms: int) -> list[Commit]:
    """Return the commits of turns that began in a time span, in one project or in all, earliest first."""
    rows = store.fetch(_turns_between(project_id, start_ms, stop_ms))
    return [
        replace(commit, turn_at_ms=row.started_at_ms, project=row.project_name or "")
        for row in rows
        for fact in unpack_facts(row.actions)
        if (commit := _commit_of(fact) or _unnamed_commit_of(fact))
    ]


def _commit_of(fact: Mapping[str, Any]) -> Commit | None:
    """Return the commit that a call's output reported; None if it reported none."""
    # It is stored as "hash subject".
    sha, _, subject = str(fact.get("commit") or "").partition(" ")
    return Commit(sha, subject) if sha else None


def _unnamed_commit_of(fact: Mapping[str, Any]) -> Commit | None:
    """Return the commit that a call's command made, for a call whose output reported none."""
    if any(map(fact.get, _FAILED)):
        return None
    subject, _ = read_message(str(fact.get("command") or ""), by_runner=True)
    return Commit("", subject) if subject else None


@prepared
def _turns_in_projects(turn_ids: Iterable[int]) -> Query:
    turn = tables.Turn
    columns = (turn.id, turn.project.alias("project_id"), turn.cwd, turn.started_at_ms, turn.ended_at_ms, turn.actions)
    return turn.select(*columns).where(in_json_list(turn.id, turn_ids) & turn.project.is_null(False))


def _turns_between(project_id: int | None, start_ms: int, stop_ms: int) -> Query:
    turn, project = tables.Turn, tables.Project
    # The list of all projects lets SQLite use the index on project and time.
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


# -- The pull requests that sessions mention.

#: Maximum number of pull requests that are stored for a session; the earliest are kept.
MAX_PULL_REQUESTS = 20


def add_pull_requests(tx: Tx, session_ref: int, links: Iterable[PullRequest]) -> None:
    """Add pull requests to a session; a known one keeps its time."""
    query = tables.PullRequest.select(tables.PullRequest.url).where(tables.PullRequest.session == session_ref)
    for link in links:
        if len(tx.fetch(query)) >= MAX_PULL_REQUESTS:
            return
        tx.run(tables.PullRequest.insert(session=session_ref, url=link.url, at_ms=link.at_ms).on_conflict_ignore())


@asks_rows(lambda rows: grouped((str(row.session_id), PullRequest(row.at_ms, row.url)) for row in rows))
def pull_requests_of(session_ids: Iterable[str]) -> Query:
    """Return session id → its pull requests, earliest first; sessions without any are left out."""
    session, link = tables.Session, tables.PullRequest
    named = link.select(session.session_id, link.at_ms, link.url).join(session)
    return named.where(in_json_list(session.session_id, session_ids)).order_by(link.at_ms, link.url)
