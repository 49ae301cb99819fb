"""Contradictions: two memories that cannot both hold, of which a person saved or pinned one; a person decides."""

from __future__ import annotations

from dataclasses import dataclass

from engram.enums import Source, Voice
from engram.models.conditions import IS_CURRENT
from engram.models.episodes import Episode
from engram.models.transaction import Reader, Tx

#: Why the older of two memories no longer holds, by what is said of the newer one.
ENDING_REASONS = {
    "supersedes": "says how it is now",
    "corrects": "corrects it",
    "resolves": "says how it was resolved",
    "retracts": "taken back",
}
#: Both memories must be current, or there is nothing to decide.
_BOTH_ARE_CURRENT = (
    f"EXISTS (SELECT 1 FROM episode e WHERE e.episode_id = c.older_id AND {IS_CURRENT}) "
    f"AND EXISTS (SELECT 1 FROM episode e WHERE e.episode_id = c.newer_id AND {IS_CURRENT})"
)


def is_kept_by_hand(episode: Episode) -> bool:
    """True for what is pinned or was saved: nothing that happens by itself replaces it."""
    return episode.is_pinned or episode.source == Source.MANUAL


def is_persons_own(episode: Episode) -> bool:
    """True for what is pinned or was saved by a person: no agent replaces it."""
    return episode.is_pinned or (episode.source == Source.MANUAL and episode.voice != Voice.AGENT)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two memories in force of which one may have to go."""

    id: int
    older_id: str
    newer_id: str
    #: Why they cannot both hold.
    reason: str
    made_at_ms: int


def note_contradiction(tx: Tx, older_id: str, newer_id: str, reason: str) -> int:
    """Note that two memories contradict each other; its number, or 0 where that is known or was decided."""
    known = tx.row(
        "SELECT 1 FROM contradiction WHERE (older_id = ? AND newer_id = ?) OR (older_id = ? AND newer_id = ?)",
        (older_id, newer_id, newer_id, older_id),
    )
    if known is not None:
        return 0
    return tx.insert(
        "INSERT INTO contradiction (older_id, newer_id, reason, made_at_ms) VALUES (?, ?, ?, ?)",
        (older_id, newer_id, reason, tx.now_ms()),
    )


def open_contradictions(store: Reader, episode_id: str | None = None, number: int | None = None) -> list[Contradiction]:
    """Contradictions that wait for a decision, the oldest first; of one memory, or the one of a number."""
    rows = store.rows(
        "SELECT c.id, c.older_id, c.newer_id, c.reason, c.made_at_ms FROM contradiction c "
        f"WHERE c.decision = '' AND {_BOTH_ARE_CURRENT} AND (? IS NULL OR ? IN (c.older_id, c.newer_id)) "
        "AND (? IS NULL OR c.id = ?) ORDER BY c.id",
        (episode_id, episode_id, number, number),
    )
    return [
        Contradiction(id=row[0], older_id=row[1], newer_id=row[2], reason=row[3], made_at_ms=row[4]) for row in rows
    ]


def note_decision(tx: Tx, number: int, decision: str, run_id: int) -> None:
    """Keep how a contradiction was decided: "both", or the id of the memory that was kept."""
    tx.run(
        "UPDATE contradiction SET decision = ?, decided_at_ms = ?, run_id = ? WHERE id = ?",
        (decision, tx.now_ms(), run_id, number),
    )


def reopen_contradictions(tx: Tx, run_id: int) -> None:
    """Ask again what was decided in a run that is undone."""
    tx.run("UPDATE contradiction SET decision = '', decided_at_ms = NULL, run_id = NULL WHERE run_id = ?", (run_id,))
