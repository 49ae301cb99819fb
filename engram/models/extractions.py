"""What an extraction leaves behind beside its episodes: how far a session was extracted, and counts for the caps."""

from __future__ import annotations

from dataclasses import dataclass

from peewee import ColumnBase, Query, Select, fn

from engram.enums import Actor, Source, Status
from engram.models import tables
from engram.models.episode_changes import change_episode
from engram.models.episodes import episodes_of_turn, evidence_of
from engram.models.records import RecordReader
from engram.models.statement import prepared
from engram.models.transaction import Reader, Tx

#: Why a memory of a turn that grew is archived or changed.
WENT_ON = "the turn went on"
#: Why a memory of a turn that did not grow is archived.
NOT_CHOSEN = "the session went on, and other memories of it were chosen"
#: Why a memory of the local extractor is changed by a language model that read its session again.
DISTILLED_AGAIN = "distilled again"
#: Why a memory of a prompt that waited in the queue is archived: the same words came as a line of their own.
PROMPT_MOVED = "its prompt was written again as a line of its own"
#: The reasons for archiving what a session's turns no longer give.
WITHDRAWN = (WENT_ON, NOT_CHOSEN, PROMPT_MOVED)


def note_extraction(tx: Tx, session_ref: int, extracted_messages: int) -> None:
    """Note that a session's messages up to a number were extracted."""
    session = tables.Session
    query = session.update(
        extracted_messages=fn.MAX(session.extracted_messages, extracted_messages),
        extractions=session.extractions + 1,
        extracted_at_ms=tx.now_ms(),
    )
    tx.run(query.where(session.id == session_ref))


def set_rolling_summary(tx: Tx, session_ref: int, text: str) -> None:
    """Keep what a session is about so far, for its next extraction."""
    tx.run(tables.Session.update(rolling_summary=text).where(tables.Session.id == session_ref))


def count_auto_episodes(store: Reader, from_ms: int, to_ms: int) -> int:
    """How many memories of these moments were kept by an extractor."""
    episode = tables.Episode
    said = (episode.created_at_ms >= from_ms) & (episode.created_at_ms < to_ms)
    return int(store.fetch_value(episode.select(fn.COUNT(episode.id)).where(said & (episode.source == Source.AUTO))))


@dataclass(frozen=True, slots=True)
class Extracted:
    """What an extractor made of a turn, whatever became of it afterwards."""

    row_id: int
    #: The summary as it was extracted: merging and editing change it later.
    summary: str
    #: Row id of the turn that it was taken from; None where that is not known.
    turn_id: int | None
    #: An extraction archived it, since the session's turns no longer give it.
    is_withdrawn: bool


def extracted_of_session(store: Reader, session_ref: int) -> list[Extracted]:
    """What extractors made of a session, the oldest first."""
    return store.fetch_records(_EXTRACTED, _extracted_of(session_ref))


def withdraw_memories(tx: Tx, turn_id: int) -> None:
    """Archive what was extracted from a queued prompt that proved to be no turn of its own."""
    for episode in episodes_of_turn(tx, turn_id):
        is_automatic = episode.source == Source.AUTO and episode.is_current
        if is_automatic and not episode.is_pinned and evidence_of(tx, episode.id)[0].turn_id == turn_id:
            change_episode(tx, episode, "archive", PROMPT_MOVED, status=Status.ARCHIVED, actor=Actor.TIDYING)


def has_due_turns(store: Reader, session_ref: int) -> bool:
    """True where a session has turns that have grown since they were extracted."""
    return store.has_any(_due_turn_of(session_ref))


def sessions_with_due_turns(store: Reader) -> list[str]:
    """Sessions that have turns to extract, the one that was silent longest first."""
    return store.fetch_values(_with_due_turns())


def _step_of(column: ColumnBase, *conditions: ColumnBase, is_latest: bool) -> Select:
    """A column of the first or latest step in an episode's history that meets some conditions."""
    history = tables.History
    order = history.id.desc() if is_latest else history.id
    of_episode = history.episode_id == tables.Episode.episode_id
    return history.select(column).where(of_episode, *conditions).order_by(order).limit(1)


_SUMMARY_BEFORE = fn.json_extract(tables.History.before, "$.summary")
_STATUS_AFTER = fn.json_extract(tables.History.after, "$.status")
_IS_ARCHIVED = tables.Episode.status == Status.ARCHIVED
_ARCHIVED_FOR = _step_of(tables.History.reason, _STATUS_AFTER == Status.ARCHIVED, is_latest=True)
_EXTRACTED = RecordReader(
    Extracted,
    tables.Episode,
    expressions={
        "row_id": tables.Episode.id,
        "summary": fn.COALESCE(
            _step_of(
                _SUMMARY_BEFORE,
                tables.History.action.not_in(("extract", "undo", "redo")),
                ~_SUMMARY_BEFORE.is_null(),
                is_latest=False,
            ),
            tables.Episode.summary,
        ),
        "turn_id": tables.Evidence.select(tables.Evidence.turn_id)
        .where(tables.Evidence.episode == tables.Episode.id)
        .order_by(tables.Evidence.seq)
        .limit(1),
        "is_withdrawn": _IS_ARCHIVED & fn.COALESCE(_ARCHIVED_FOR, "").in_(WITHDRAWN),
    },
    readers={"is_withdrawn": bool},
    is_whole=False,
)


@prepared
def _extracted_of(session_ref: int) -> Query:
    episode = tables.Episode
    query = _EXTRACTED.select().where((episode.session == session_ref) & (episode.source == Source.AUTO))
    return query.order_by(episode.id)


@prepared
def _due_turn_of(session_ref: int) -> Query:
    turn = tables.Turn
    return (
        turn.select(turn.id).where((turn.session == session_ref) & (turn.extracted_revision < turn.revision)).limit(1)
    )


@prepared
def _with_due_turns() -> Query:
    session, turn = tables.Session, tables.Turn
    query = turn.select(session.session_id).distinct().join(session).where(turn.extracted_revision < turn.revision)
    return query.order_by(session.last_at_ms, session.id)
