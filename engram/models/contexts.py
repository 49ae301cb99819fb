"""What Claude's context still holds of a session: since when it grows, and which other sessions it was copied from."""

from __future__ import annotations

from collections.abc import Sequence

from engram.models.packed_entries import entry_key
from engram.models.transaction import Reader, Tx

#: Stands for "until now", in milliseconds since 1970.
_FOREVER_MS = 2**62


def note_context_start(tx: Tx, session_id: str, at_ms: int) -> None:
    """A session was compacted or cleared: what was said before is no longer in its context."""
    tx.run(
        "INSERT INTO context VALUES (?, ?) ON CONFLICT (session_id) DO UPDATE SET "
        "began_at_ms = max(began_at_ms, excluded.began_at_ms)",
        (session_id, at_ms),
    )


def context_start_ms(store: Reader, session_id: str) -> int:
    """When a session was last compacted or cleared; 0 where it never was."""
    return int(store.value("SELECT began_at_ms FROM context WHERE session_id = ?", (session_id,)) or 0)


def note_copied_history(tx: Tx, session_id: str, from_session: str, until_ms: int) -> None:
    """A fork's transcript repeats another session's entries up to a time."""
    tx.run(
        "INSERT INTO copied_history VALUES (?, ?, ?) ON CONFLICT (session_id, from_session) DO UPDATE SET "
        "until_ms = max(until_ms, excluded.until_ms)",
        (session_id, from_session, until_ms),
    )


def copied_history(store: Reader, session_id: str) -> list[tuple[str, int]]:
    """(session, until when) of every session whose entries this one's transcript repeats."""
    rows = store.rows("SELECT from_session, until_ms FROM copied_history WHERE session_id = ?", (session_id,))
    return [(str(row[0]), int(row[1])) for row in rows]


def sessions_of_entries(store: Reader, uuids: Sequence[str]) -> dict[str, str]:
    """Entry uuid → id of the session that its turn is stored under; unknown entries are left out."""
    by_key = {entry_key(uuid): uuid for uuid in uuids}
    rows = store.rows_among(
        "SELECT e.key, s.session_id FROM entry e JOIN turn t ON t.id = e.turn_id JOIN session s ON s.id = t.session_ref "
        "WHERE e.key IN",
        list(by_key),
    )
    return {by_key[int(row[0])]: str(row[1]) for row in rows}


def episodes_in_context(store: Reader, session_id: str, began_at_ms: int) -> set[str]:
    """Ids of the memories whose source is still in a session's context: they would only repeat what Claude sees.

    These rest on what the session itself said, or on what it repeats of the sessions it was forked from; and what
    those sessions were shown, which a fork replays.

    Args:
        began_at_ms: what was said up to then was compacted away, and may be brought up.
    """
    copied = copied_history(store, session_id)
    found: set[str] = set()
    for source, until_ms in [(session_id, _FOREVER_MS), *copied]:
        rows = store.rows(
            "SELECT e.episode_id FROM episode e JOIN session s ON s.id = e.session_ref "
            "WHERE s.session_id = ? AND e.created_at_ms > ? AND e.created_at_ms <= ? "
            "UNION SELECT e.episode_id FROM evidence v JOIN episode e ON e.id = v.episode_ref "
            "LEFT JOIN turn t ON t.id = v.turn_id WHERE v.session_id = ? "
            "AND coalesce(t.started_at_ms, e.created_at_ms) > ? AND coalesce(t.started_at_ms, e.created_at_ms) <= ?",
            (source, began_at_ms, until_ms, source, began_at_ms, until_ms),
        )
        found |= {str(row[0]) for row in rows}
    for source, until_ms in copied:
        rows = store.rows(
            "SELECT episode_id FROM injection WHERE session_id = ? AND state = 'shown' AND at_ms > ? AND at_ms <= ?",
            (source, began_at_ms, until_ms),
        )
        found |= {str(row[0]) for row in rows}
    return found
