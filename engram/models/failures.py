"""Failing commands: which earlier ones had the same error, and which programs have failed in a project."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from peewee import Query

from engram.models import tables
from engram.models.statement import in_json_list, is_same, prepared
from engram.models.transaction import Reader, Tx, Value
from engram.models.turns import StoredTurn, load_turn_row
from engram.text.failures import programs_of
from engram.transcripts.record import Action

#: Maximum number of rows of earlier failures that are compared, the latest first.
MAX_ROWS = 500


@dataclass(frozen=True, slots=True)
class EarlierFailure:
    """A failing command of a stored turn that shares a part of its error with another."""

    turn_id: int
    #: Place of the call among the turn's tool calls.
    seq: int
    session_id: str
    programs: frozenset[str]
    #: The keys that both errors have.
    shared_keys: frozenset[int]


def replace_failed_calls(tx: Tx, turn_id: int, actions: Iterable[Mapping[str, object] | Action]) -> None:
    """Store the failing commands of a turn in place of those that are stored.

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
    """Return the failing commands of a project that have one of these keys, the latest first."""
    calls: dict[tuple[int, int], EarlierFailure] = {}
    for row in store.fetch(_with_keys(project_id, json.dumps(sorted(error_keys)))):
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


def failed_programs(store: Reader, project_id: int, but_session: str) -> list[str]:
    """Return the programs that have failed in a project's other sessions, sorted."""
    stored = store.fetch_values(_programs(project_id, but_session))
    return sorted({program for programs in stored for program in programs.splitlines()})


def turns_from(store: Reader, turn_id: int, limit: int) -> list[StoredTurn]:
    """Return a turn and those of its project that follow it in its session, in the order of the transcript."""
    ids = store.fetch_values(_following(turn_id, limit))
    turns = (load_turn_row(store, int(following_id)) for following_id in ids)
    return [turn for turn in turns if turn is not None]


def _failure_of(action: Mapping[str, object] | Action) -> tuple[Sequence[str], Sequence[int]]:
    """Return the programs and error keys of a tool call; empty for one that did not fail."""
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
def _with_keys(project_id: int, keys: str) -> Query:
    call, turn, session = tables.FailedCall, tables.Turn, tables.Session
    query = call.select(call.turn, call.seq, call.error_key, call.programs, session.session_id)
    query = query.join(turn).join(session)
    query = query.where(in_json_list(call.error_key, keys) & (turn.project == project_id))
    return query.order_by(turn.started_at_ms.desc(), call.turn.desc(), call.seq.desc()).limit(MAX_ROWS)


@prepared
def _programs(project_id: int, but_session: str) -> Query:
    call, turn, session = tables.FailedCall, tables.Turn, tables.Session
    query = call.select(call.programs).distinct().join(turn).join(session)
    return query.where((turn.project == project_id) & (session.session_id != but_session))


@prepared
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
