"""Judgements on memories: which stand, and which memories were judged wrong or outdated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peewee import ColumnBase, Query

from engram.enums import Judgement, Status
from engram.models import tables
from engram.models.episode_history import JUDGEMENT_ACTIONS, TAKE_BACK, Change, history_of
from engram.models.episodes import EPISODES, IS_GLOBAL, Episode, query_episodes
from engram.models.statement import Statement, is_same, prepared
from engram.models.transaction import Reader

#: Action of the history → judgement.
JUDGEMENTS = {action: judgement for judgement, action in JUDGEMENT_ACTIONS.items()}


@dataclass(frozen=True, slots=True)
class JudgedMemory:
    """A memory that was judged wrong or outdated."""

    episode: Episode
    judgement: Judgement
    #: Why; "" if that is not known.
    reason: str = ""
    #: When, in milliseconds since 1970; 0 if that is not known.
    at_ms: int = 0


def standing_judgements(history: Sequence[Change]) -> list[Change]:
    """Return the judgements in a memory's history that were not taken back; the last one counts."""
    standing: list[Change] = []
    for change in history:
        if change.action in JUDGEMENTS:
            standing.append(change)
        elif change.action == TAKE_BACK and standing:
            standing.pop()
    return standing


def judgement_of(change: Change) -> Judgement:
    """Return the judgement that a step of a history is."""
    return JUDGEMENTS[change.action]


def judged_memories(store: Reader, project_id: int | None) -> list[JudgedMemory]:
    """Return what was judged wrong or outdated of a project's memories and the global ones, the oldest first."""
    return _judged(store, _judged_in_project(project_id))


def judged_of_session(store: Reader, row_id: int) -> list[JudgedMemory]:
    """Return what was judged wrong or outdated of the memories that a session led to, the oldest first."""
    return _judged(store, _judged_in_session(row_id))


@prepared
def _judged_in_project(project_id: int | None) -> Query:
    is_seen = is_same(tables.Episode.project, project_id) | IS_GLOBAL
    return query_episodes().where(is_seen & _may_be_judged()).order_by(tables.Episode.created_at_ms)


@prepared
def _judged_in_session(row_id: int) -> Query:
    is_of_session = tables.Episode.session == row_id
    return query_episodes().where(is_of_session & _may_be_judged()).order_by(tables.Episode.created_at_ms)


def _may_be_judged() -> ColumnBase:
    episode, history = tables.Episode, tables.History
    outdated = history.select(history.episode_id).where(
        (history.episode_id == episode.episode_id) & (history.action == JUDGEMENT_ACTIONS[Judgement.OUTDATED])
    )
    is_ended = (episode.status == Status.ARCHIVED.value) & episode.episode_id.in_(outdated)
    return (episode.is_lowered == 1) | is_ended


def _judged(store: Reader, query: Statement) -> list[JudgedMemory]:
    judged = []
    for memory in store.fetch_records(EPISODES, query):
        standing = standing_judgements(history_of(store, memory.episode_id))
        if standing and judgement_of(standing[-1]) is not Judgement.HELPFUL:
            last = standing[-1]
            judged.append(JudgedMemory(memory, judgement_of(last), last.reason, last.at_ms))
        elif memory.is_lowered:
            judged.append(JudgedMemory(memory, Judgement.WRONG))
    return judged
