"""What an agent's context still holds of a session: since when it grows, and which other sessions it was copied
from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from peewee import EXCLUDED, JOIN, Query, fn

from engram.models import tables
from engram.models.injections import AGENT_KEY
from engram.models.packed_entries import entry_key
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader, Tx

#: Stands for "until now", in milliseconds since 1970.
_FOREVER_MS = 2**62


def note_context_start(tx: Tx, session_id: str, at_ms: int) -> None:
    """A session was compacted or cleared: what was said before is no longer in its context."""
    context = tables.Context
    query = context.insert(session_id=session_id, began_at_ms=at_ms)
    latest = fn.MAX(context.began_at_ms, EXCLUDED.began_at_ms)
    tx.run(query.on_conflict(conflict_target=(context.session_id,), update={context.began_at_ms: latest}))


def context_start_ms(store: Reader, session_id: str) -> int:
    """When a session was last compacted or cleared; 0 where it never was."""
    return int(store.fetch_value(_context_start(session_id)) or 0)


def note_copied_history(tx: Tx, session_id: str, from_session: str, until_ms: int) -> None:
    """A fork's transcript repeats another session's entries up to a time."""
    copied = tables.CopiedHistory
    query = copied.insert(session_id=session_id, from_session=from_session, until_ms=until_ms)
    latest = fn.MAX(copied.until_ms, EXCLUDED.until_ms)
    tx.run(
        query.on_conflict(conflict_target=(copied.session_id, copied.from_session), update={copied.until_ms: latest})
    )


def copied_history(store: Reader, session_id: str) -> list[tuple[str, int]]:
    """(session, until when) of every session whose entries this one's transcript repeats."""
    return [(row.from_session, row.until_ms) for row in store.fetch(_copied(session_id))]


def sessions_of_entries(store: Reader, uuids: Sequence[str]) -> dict[str, str]:
    """Entry uuid → id of the session that its turn is stored under; unknown entries are left out."""
    by_key = {entry_key(uuid): uuid for uuid in uuids}
    return {by_key[row.key]: row.session_id for row in store.fetch(_sessions_of_keys(json.dumps(list(by_key))))}


def episodes_in_context(store: Reader, session_id: str, began_at_ms: int) -> set[str]:
    """Ids of the memories whose source is still in a session's context: they would only repeat what the agent sees.

    These rest on what the session itself said, or on what it repeats of the sessions it was forked from; and what
    those sessions were shown, which a fork replays.

    Args:
        began_at_ms: what was said up to then was compacted away, and may be brought up.
    """
    copied = copied_history(store, session_id)
    episode_ids: set[str] = set()
    for source, until_ms in [(session_id, _FOREVER_MS), *copied]:
        episode_ids.update(store.fetch_values(_made_in_session(source, began_at_ms, until_ms)))
        episode_ids.update(store.fetch_values(_resting_on_session(source, began_at_ms, until_ms)))
    for source, until_ms in copied:
        episode_ids.update(store.fetch_values(_shown_to_session(source, began_at_ms, until_ms)))
    return episode_ids


@prepared
def _context_start(session_id: str) -> Query:
    return tables.Context.select(tables.Context.began_at_ms).where(tables.Context.session_id == session_id)


@prepared
def _copied(session_id: str) -> Query:
    return tables.CopiedHistory.select().where(tables.CopiedHistory.session_id == session_id)


@prepared
def _sessions_of_keys(keys: str) -> Query:
    query = tables.Entry.select(tables.Entry.key, tables.Session.session_id)
    query = query.join(tables.Turn, on=tables.Turn.id == tables.Entry.turn_id).join(tables.Session)
    return query.where(in_json_list(tables.Entry.key, keys))


@prepared
def _made_in_session(session_id: str, after_ms: int, until_ms: int) -> Query:
    episode = tables.Episode
    query = episode.select(episode.episode_id).join(tables.Session)
    said = (episode.created_at_ms > after_ms) & (episode.created_at_ms <= until_ms)
    return query.where((tables.Session.session_id == session_id) & said)


@prepared
def _resting_on_session(session_id: str, after_ms: int, until_ms: int) -> Query:
    episode, evidence, turn = tables.Episode, tables.Evidence, tables.Turn
    query = evidence.select(episode.episode_id).join(episode)
    query = query.join_from(evidence, turn, JOIN.LEFT_OUTER, on=turn.id == evidence.turn_id)
    said_at_ms = fn.COALESCE(turn.started_at_ms, episode.created_at_ms)
    return query.where((evidence.session_id == session_id) & (said_at_ms > after_ms) & (said_at_ms <= until_ms))


@prepared
def _shown_to_session(session_id: str, after_ms: int, until_ms: int) -> Query:
    injection = tables.Injection
    shown = (injection.state == "shown") & (injection.at_ms > after_ms) & (injection.at_ms <= until_ms)
    is_own = ~injection.prompt_key.startswith(AGENT_KEY)
    return injection.select(injection.episode_id).where((injection.session_id == session_id) & shown & is_own)
