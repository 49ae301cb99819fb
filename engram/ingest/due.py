"""Make work due after a read: extraction by thresholds or silence, a recollection for a new prompt."""

from __future__ import annotations

from engram.models.sessions import SessionRow
from engram.models.transaction import Tx
from engram.models.work import make_due, postpone
from engram.settings import Settings


def extraction_due_at_ms(session: SessionRow, settings: Settings, now_ms: int) -> int:
    """Return when a session's new messages are to be extracted: now if there are enough, else after a while.

    The while counts from its last extraction, or from its last entry if that is earlier (before the first extraction,
    and for an old transcript). A time in the future (another machine's clock) counts as now.
    """
    wanted = settings.extract_every_messages if session.extractions else settings.extract_first_messages
    if session.message_count - session.extracted_messages >= wanted:
        return now_ms
    since_ms = min(session.last_at_ms, now_ms)
    if session.extracted_at_ms:
        since_ms = min(since_ms, session.extracted_at_ms)
    return since_ms + settings.extract_idle_seconds * 1000


def note_due(tx: Tx, session: SessionRow, settings: Settings, new_prompt_at_ms: int | None) -> None:
    """Make the work due that a session's growth causes. Call it in the transaction that writes the growth."""
    now_ms = tx.now_ms()
    if settings.extractor != "off":
        due_at_ms = extraction_due_at_ms(session, settings, now_ms)
        if due_at_ms <= now_ms:
            make_due(tx, "extract", session.session_id, due_at_ms, reason="messages")
        else:
            postpone(tx, "extract", session.session_id, due_at_ms)
    if settings.inject and new_prompt_at_ms is not None and is_fresh(new_prompt_at_ms, settings, now_ms):
        make_due(tx, "recollect", session.session_id, now_ms, reason="prompt")


def is_fresh(at_ms: int, settings: Settings, now_ms: int) -> bool:
    """True if a prompt is young enough that a recollection for it would still be injected."""
    return abs(now_ms - at_ms) <= settings.stale_seconds * 1000
