"""What a session or project was about lately: the latest turn, its files, and the memories that are pinned."""

from __future__ import annotations

from peewee import ColumnBase, Query, fn

from engram.enums import Status
from engram.models import tables
from engram.models.episodes import IS_GLOBAL, Episode, select_episodes
from engram.models.packed_actions import unpack_facts
from engram.models.statement import prepared
from engram.models.transaction import Reader
from engram.models.turns import StoredTurn, load_turn_row
from engram.transcripts.record import Opening


def latest_turn(store: Reader, session_id: str) -> StoredTurn | None:
    """The latest turn of a session that began with a prompt."""
    row_id = store.fetch_value(_latest_turn_of(session_id))
    return None if row_id is None else load_turn_row(store, int(row_id))


def recent_files(store: Reader, project_id: int, turns: int = 12) -> list[str]:
    """Files that the latest turns of a project changed, the latest first, each once, as written."""
    files: dict[str, None] = {}
    for actions in store.fetch_values(_latest_actions_of(project_id, turns)):
        for action in unpack_facts(actions):
            if action.get("is_edit"):
                files.update(dict.fromkeys(str(name) for name in action.get("files", ())))
    return list(files)


def last_turn_of_project_ms(store: Reader, project_id: int) -> int:
    """When the last turn of a project began, in milliseconds since 1970; 0 where there is none."""
    return int(store.fetch_value(_last_turn_of(project_id)))


def pinned_episodes(store: Reader, project_id: int, limit: int = 100) -> list[Episode]:
    """Pinned memories of a project and of global scope, the newest first; an id of no project: global ones alone."""
    episode = tables.Episode
    condition = (episode.is_pinned == 1) & _is_active_in(project_id)
    return select_episodes(store, condition, episode.created_at_ms.desc(), episode.id.desc(), limit=limit)


def count_active(store: Reader, project_id: int) -> int:
    """Active memories of a project and of global scope."""
    return int(store.fetch_value(_count_active(project_id)))


@prepared
def _latest_turn_of(session_id: str) -> Query:
    turn, session = tables.Turn, tables.Session
    query = turn.select(fn.MAX(turn.id)).join(session)
    return query.where((session.session_id == session_id) & (turn.opening != Opening.CONTINUATION))


@prepared
def _last_turn_of(project_id: int) -> Query:
    turn = tables.Turn
    return turn.select(fn.COALESCE(fn.MAX(turn.started_at_ms), 0)).where(turn.project == project_id)


@prepared
def _latest_actions_of(project_id: int, limit: int) -> Query:
    turn = tables.Turn
    query = turn.select(turn.actions).where(turn.project == project_id)
    return query.order_by(turn.started_at_ms.desc()).limit(limit)


@prepared
def _count_active(project_id: int) -> Query:
    return tables.Episode.select(fn.COUNT(tables.Episode.id)).where(_is_active_in(project_id))


def _is_active_in(project_id: int) -> ColumnBase:
    """The condition that a memory is active and seen in a project."""
    episode = tables.Episode
    condition: ColumnBase = (episode.status == Status.ACTIVE) & (IS_GLOBAL | (episode.project == project_id))
    return condition
