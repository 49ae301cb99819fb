"""Which turns a language model has read, and which sessions wait to be distilled again after the local extractor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peewee import JOIN, ColumnBase, Query, fn

from engram.enums import Source
from engram.models import tables
from engram.models.episode_history import BY_HAND_ACTIONS, Change
from engram.models.episodes import Episode
from engram.models.statement import prepared
from engram.models.transaction import Reader, Tx
from engram.models.turns import StoredTurn

#: Beginning of the names of local extractors.
LOCAL_PREFIX = "local"
#: Actions after which a memory of the local extractor stays as it is: a person decided, or it stands for several.
KEPT_ACTIONS = (*BY_HAND_ACTIONS, "merge", "graduate", "undo", "redo")
#: How far back turns count as use of a project, in milliseconds (30 days).
USE_WINDOW_MS = 30 * 86_400_000


@dataclass(frozen=True, slots=True)
class SecondChances:
    """How far the second distillation is."""

    #: Sessions that were distilled again.
    done: int
    #: Sessions with turns that were extracted and that no model has read.
    waiting: int


def note_model_reading(tx: Tx, turns: Iterable[StoredTurn], *, is_second: bool = False) -> None:
    """Note that a language model has read these turns at their revisions."""
    for turn in turns:
        tx.run(_put_reading(turn.id, turn.revision, is_second))


def is_replaceable(episode: Episode, history: Sequence[Change]) -> bool:
    """Return True for a memory of the local extractor in force that nobody changed, judged, saved or pinned."""
    is_local = episode.source == Source.AUTO and episode.extractor.startswith(LOCAL_PREFIX)
    is_free = not (episode.is_pinned or episode.is_lowered or episode.suspect or episode.graduated_at_ms)
    return (
        is_local
        and episode.is_current
        and is_free
        and not any(change.action in KEPT_ACTIONS or change.is_by_hand for change in history)
    )


def waiting_sessions(store: Reader) -> list[str]:
    """Return the sessions to distill again: those of the most used projects first, then the newest."""
    rows = store.fetch(_waiting())
    uses = {row.project_id: row.uses for row in store.fetch(_uses(store.now_ms() - USE_WINDOW_MS))} if rows else {}
    ordered = sorted(rows, key=lambda row: (-uses.get(row.project_id, 0), -row.last_at_ms, row.id))
    return [row.session_id for row in ordered]


def unread_turns(store: Reader, session_ref: int) -> set[int]:
    """Return the turns of a session, by row id, that were extracted and that no model has read."""
    return set(store.fetch_values(_unread_of(session_ref)))


def second_chances(store: Reader) -> SecondChances:
    """Return how many sessions were distilled again, and how many wait for it."""
    waiting = waiting_sessions(store)
    reading, turn, session = tables.ModelReading, tables.Turn, tables.Session
    read_again = turn.select(turn.session).join(reading, on=reading.turn == turn.id).where(reading.is_second == 1)
    names = store.fetch_values(session.select(session.session_id).where(session.id.in_(read_again)))
    return SecondChances(done=len(set(names) - set(waiting)), waiting=len(waiting))


def _is_unread() -> ColumnBase:
    turn, reading = tables.Turn, tables.ModelReading
    is_extracted = turn.extracted_revision == turn.revision
    return is_extracted & (fn.COALESCE(reading.revision, 0) < turn.revision)


@prepared
def _put_reading(turn_id: int, revision: int, is_second: bool) -> Query:
    reading = tables.ModelReading
    query = reading.insert(turn=turn_id, revision=revision, is_second=is_second)
    return query.on_conflict(
        conflict_target=[reading.turn],
        update={
            reading.revision: fn.MAX(reading.revision, revision),
            reading.is_second: fn.MAX(reading.is_second, is_second),
        },
    )


@prepared
def _unread_of(session_ref: int) -> Query:
    turn, reading = tables.Turn, tables.ModelReading
    query = turn.select(turn.id).join(reading, JOIN.LEFT_OUTER, on=reading.turn == turn.id)
    return query.where((turn.session == session_ref) & _is_unread())


@prepared
def _uses(since_ms: int) -> Query:
    turn = tables.Turn
    uses = turn.select(turn.project.alias("project_id"), fn.COUNT(turn.id).alias("uses"))
    return uses.where(turn.started_at_ms >= since_ms).group_by(turn.project)


@prepared
def _waiting() -> Query:
    """Sessions with turns in which something was said, that were extracted, and that no model has read.

    A session of which rules kept nothing waits as well: most say what only a model can conclude.
    """
    episode, turn, session, reading = tables.Episode, tables.Turn, tables.Session, tables.ModelReading
    evidence, said = tables.Evidence, tables.TextBlock
    columns = [session.id, session.session_id, session.project.alias("project_id"), session.last_at_ms]
    by_model = (episode.source == Source.AUTO) & ~episode.extractor.startswith(LOCAL_PREFIX)
    # Turns that a model read before readings were noted.
    was_read = (
        evidence.select(1)
        .join(episode, on=episode.id == evidence.episode)
        .where((evidence.turn_id == turn.id) & (evidence.seq == 0) & by_model)
    )
    query = (
        session.select(*columns)
        .join(turn, on=turn.session == session.id)
        .join(reading, JOIN.LEFT_OUTER, on=reading.turn == turn.id)
    )
    has_text = said.select(1).where(said.turn == turn.id)
    return query.where(_is_unread() & fn.EXISTS(has_text) & ~fn.EXISTS(was_read)).group_by(session.id)
