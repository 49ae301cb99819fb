"""What an extraction leaves behind beside its episodes: how far a session was extracted, and counts for the caps."""

from __future__ import annotations

from engram.models.store import Store


def note_extraction(store: Store, session_ref: int, extracted_messages: int) -> None:
    """Note that a session's messages up to a number were extracted. Inside ``writing``."""
    store.run(
        "UPDATE session SET extracted_messages = max(extracted_messages, ?), extractions = extractions + 1 WHERE id = ?",
        (extracted_messages, session_ref),
    )


def set_rolling_summary(store: Store, session_ref: int, text: str) -> None:
    """Keep what a session is about so far, for its next extraction. Inside ``writing``."""
    store.run("UPDATE session SET rolling_summary = ? WHERE id = ?", (text, session_ref))


def count_auto_episodes(store: Store, from_ms: int, to_ms: int) -> int:
    """How many memories of these moments were kept by an extractor."""
    return int(
        store.value(
            "SELECT count(*) FROM episode WHERE source = 'auto' AND created_at_ms >= ? AND created_at_ms < ?",
            (from_ms, to_ms),
        )
    )


def has_due_turns(store: Store, session_ref: int) -> bool:
    """True where a session has turns that have grown since they were extracted."""
    return (
        store.row("SELECT 1 FROM turn WHERE session_ref = ? AND extracted_revision < revision LIMIT 1", (session_ref,))
        is not None
    )


def sessions_with_due_turns(store: Store) -> list[str]:
    """Sessions that have turns to extract, the one that was silent longest first."""
    rows = store.rows(
        "SELECT DISTINCT s.session_id, s.last_at_ms FROM turn t JOIN session s ON s.id = t.session_ref "
        "WHERE t.extracted_revision < t.revision ORDER BY s.last_at_ms, s.id"
    )
    return [str(row[0]) for row in rows]
