"""What an extraction leaves behind beside its episodes: how far a session was extracted, and counts for the caps."""

from __future__ import annotations

from dataclasses import dataclass

from engram.enums import Actor, Source, Status
from engram.models.conditions import IS_ARCHIVED, IS_AUTO
from engram.models.episode_changes import change_episode
from engram.models.episodes import episodes_of_turn, evidence_of
from engram.models.transaction import Reader, Tx

#: Why a memory of a turn that grew is archived or changed.
WENT_ON = "the turn went on"
#: Why a memory of a turn that did not grow is archived.
NOT_CHOSEN = "the session went on, and other memories of it were chosen"
#: Why a memory of a prompt that waited in the queue is archived: the same words came as a line of their own.
PROMPT_MOVED = "its prompt was written again as a line of its own"
#: The reasons for archiving what a session's turns no longer give.
WITHDRAWN = (WENT_ON, NOT_CHOSEN, PROMPT_MOVED)


def note_extraction(tx: Tx, session_ref: int, extracted_messages: int) -> None:
    """Note that a session's messages up to a number were extracted."""
    tx.run(
        "UPDATE session SET extracted_messages = max(extracted_messages, ?), extractions = extractions + 1, "
        "extracted_at_ms = ? WHERE id = ?",
        (extracted_messages, tx.now_ms(), session_ref),
    )


def set_rolling_summary(tx: Tx, session_ref: int, text: str) -> None:
    """Keep what a session is about so far, for its next extraction."""
    tx.run("UPDATE session SET rolling_summary = ? WHERE id = ?", (text, session_ref))


def count_auto_episodes(store: Reader, from_ms: int, to_ms: int) -> int:
    """How many memories of these moments were kept by an extractor."""
    return int(
        store.value(
            f"SELECT count(*) FROM episode e WHERE {IS_AUTO} AND e.created_at_ms >= ? AND e.created_at_ms < ?",
            (from_ms, to_ms),
        )
    )


@dataclass(frozen=True, slots=True)
class Extracted:
    """What an extractor made of a turn, whatever became of it afterwards."""

    row_id: int
    #: The summary as it was extracted: merging, rewording and editing change it later.
    summary: str
    #: Row id of the turn that it was taken from; None where that is not known.
    turn_id: int | None
    #: An extraction archived it, since the session's turns no longer give it.
    is_withdrawn: bool


def extracted_of_session(store: Reader, session_ref: int) -> list[Extracted]:
    """What extractors made of a session, the oldest first."""
    marks = ", ".join("?" * len(WITHDRAWN))
    rows = store.rows(
        "SELECT e.id, coalesce((SELECT json_extract(h.before, '$.summary') FROM history h "
        "WHERE h.episode_id = e.episode_id AND h.action NOT IN ('extract', 'undo') AND json_extract(h.before, '$.summary') IS NOT NULL "
        "ORDER BY h.id LIMIT 1), e.summary), "
        "(SELECT v.turn_id FROM evidence v WHERE v.episode_ref = e.id ORDER BY v.seq LIMIT 1), "
        f"{IS_ARCHIVED} AND coalesce((SELECT h.reason FROM history h WHERE h.episode_id = e.episode_id "
        f"AND json_extract(h.after, '$.status') = '{Status.ARCHIVED}' ORDER BY h.id DESC LIMIT 1), '') IN ({marks}) "
        f"FROM episode e WHERE e.session_ref = ? AND {IS_AUTO} ORDER BY e.id",
        (*WITHDRAWN, session_ref),
    )
    return [
        Extracted(row_id=row_id, summary=summary, turn_id=turn_id, is_withdrawn=bool(is_withdrawn))
        for row_id, summary, turn_id, is_withdrawn in rows
    ]


def withdraw_memories(tx: Tx, turn_id: int) -> None:
    """Archive what was extracted from a queued prompt that proved to be no turn of its own."""
    for episode in episodes_of_turn(tx, turn_id):
        is_automatic = episode.source == Source.AUTO and episode.is_current
        if is_automatic and not episode.is_pinned and evidence_of(tx, episode.id)[0].turn_id == turn_id:
            change_episode(tx, episode, "archive", PROMPT_MOVED, status=Status.ARCHIVED, actor=Actor.TIDYING)


def has_due_turns(store: Reader, session_ref: int) -> bool:
    """True where a session has turns that have grown since they were extracted."""
    return (
        store.row("SELECT 1 FROM turn WHERE session_ref = ? AND extracted_revision < revision LIMIT 1", (session_ref,))
        is not None
    )


def sessions_with_due_turns(store: Reader) -> list[str]:
    """Sessions that have turns to extract, the one that was silent longest first."""
    rows = store.rows(
        "SELECT DISTINCT s.session_id, s.last_at_ms FROM turn t JOIN session s ON s.id = t.session_ref "
        "WHERE t.extracted_revision < t.revision ORDER BY s.last_at_ms, s.id"
    )
    return [str(row[0]) for row in rows]
