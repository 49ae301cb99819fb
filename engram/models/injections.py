"""What Claude was shown: the ledger that keeps a memory from being shown twice, and the figures of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engram.models.store import Store
from engram.models.transaction import Reader, Tx

#: Channel of what a briefing tells.
AT_START = "start"


@dataclass(frozen=True, slots=True)
class Injection:
    """One bite that was shown, or is waiting to be."""

    session_id: str
    #: Tells the prompt: its id, else a hash of its text.
    prompt_key: str
    #: prompt (UserPromptSubmit), tool (PreToolUse) or start (SessionStart).
    channel: str
    episode_id: str
    score: float
    tokens: int
    #: pending or shown.
    state: str
    at_ms: int = 0
    expanded_at_ms: int | None = None
    id: int = 0


_INJECTION = (
    "SELECT session_id, prompt_key, channel, episode_id, score, tokens, state, at_ms, expanded_at_ms, id FROM injection"
)


def add_injections(tx: Tx, injections: Sequence[Injection]) -> None:
    """Write bites into the ledger."""
    tx.run_many(
        "INSERT INTO injection (session_id, prompt_key, channel, episode_id, score, tokens, state, at_ms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (i.session_id, i.prompt_key, i.channel, i.episode_id, i.score, i.tokens, i.state, i.at_ms or tx.now_ms())
            for i in injections
        ],
    )


def told_at_start(session_id: str, episode_ids: Sequence[str], at_ms: int) -> list[Injection]:
    """What a briefing tells, for the ledger; its tokens are counted with the briefing."""
    return [Injection(session_id, "briefing", AT_START, one, 0.0, 0, "shown", at_ms) for one in episode_ids]


def drop_told_at_start(tx: Tx, session_id: str) -> None:
    """A briefing was not shown after all."""
    tx.run("DELETE FROM injection WHERE session_id = ? AND channel = ? AND is_cleared = 0", (session_id, AT_START))


def injected_ids(store: Reader, session_id: str) -> set[str]:
    """Episodes that this session was shown since it was last cleared, pending ones included."""
    rows = store.rows(
        "SELECT DISTINCT episode_id FROM injection WHERE session_id = ? AND is_cleared = 0", (session_id,)
    )
    return {str(row[0]) for row in rows}


def injections_of_session(store: Reader, session_id: str) -> list[Injection]:
    """Everything a session was shown, in order."""
    return [Injection(*row) for row in store.rows(f"{_INJECTION} WHERE session_id = ? ORDER BY id", (session_id,))]


def injections_of_episode(store: Reader, episode_id: str) -> list[Injection]:
    """Where an episode was shown, the latest first."""
    return [Injection(*row) for row in store.rows(f"{_INJECTION} WHERE episode_id = ? ORDER BY id DESC", (episode_id,))]


def mark_shown(tx: Tx, session_id: str, prompt_key: str) -> int:
    """Pending bites of a prompt were handed over."""
    return tx.run(
        "UPDATE injection SET state = 'shown', at_ms = ? WHERE session_id = ? AND prompt_key = ? AND state = 'pending'",
        (tx.now_ms(), session_id, prompt_key),
    )


def mark_pending(tx: Tx, session_id: str, prompt_key: str) -> int:
    """What was given to a prompt came too late: it waits for the next tool call instead."""
    return tx.run(
        "UPDATE injection SET state = 'pending', channel = 'tool', at_ms = ? "
        "WHERE session_id = ? AND prompt_key = ? AND state = 'shown' AND channel = 'prompt'",
        (tx.now_ms(), session_id, prompt_key),
    )


def drop_pending(tx: Tx, session_id: str, prompt_key: str | None = None) -> int:
    """Pending bites that will never be shown leave the ledger."""
    if prompt_key is None:
        return tx.run("DELETE FROM injection WHERE session_id = ? AND state = 'pending'", (session_id,))
    return tx.run(
        "DELETE FROM injection WHERE session_id = ? AND prompt_key = ? AND state = 'pending'", (session_id, prompt_key)
    )


def clear_ledger(store: Store, session_id: str) -> None:
    """Claude's context was cleared or compacted: everything may be shown again."""
    with store.transaction() as tx:
        tx.run("UPDATE injection SET is_cleared = 1 WHERE session_id = ?", (session_id,))
        tx.run("DELETE FROM shown WHERE session_id = ?", (session_id,))


def note_shown(store: Store, session_id: str, what: str, tokens: int) -> bool:
    """Note that a session was shown something once (a briefing); False where it was already."""
    with store.transaction() as tx:
        return (
            tx.run("INSERT OR IGNORE INTO shown VALUES (?, ?, ?, ?)", (session_id, what, store.now_ms(), tokens)) == 1
        )


def shown_of_session(store: Reader, session_id: str) -> list[tuple[str, int, int]]:
    """(what, when, tokens) that a session was shown beside bites."""
    rows = store.rows("SELECT what, at_ms, tokens FROM shown WHERE session_id = ? ORDER BY at_ms", (session_id,))
    return [(str(row[0]), int(row[1]), int(row[2])) for row in rows]
