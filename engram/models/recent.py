"""What a session or project was about lately: the latest turn, its files, and the memories that are pinned."""

from __future__ import annotations

from peewee import SQL, ColumnBase, fn

from engram.enums import Status
from engram.models import tables
from engram.models.episodes import IS_GLOBAL, Episode, select_episodes
from engram.models.transaction import Reader
from engram.models.turns import StoredTurn, load_turn_row, unpack_facts


def latest_turn(store: Reader, session_id: str) -> StoredTurn | None:
    """The latest turn of a session that began with a prompt."""
    row_id = store.value(
        "SELECT max(t.id) FROM turn t JOIN session s ON s.id = t.session_ref "
        "WHERE s.session_id = ? AND t.opening <> 'continuation'",
        (session_id,),
    )
    return None if row_id is None else load_turn_row(store, int(row_id))


def recent_files(store: Reader, project_id: int, turns: int = 12) -> list[str]:
    """Files that the latest turns of a project changed, the latest first, each once, as written."""
    rows = store.rows(
        "SELECT actions FROM turn WHERE project_id = ? ORDER BY started_at_ms DESC LIMIT ?", (project_id, turns)
    )
    files: dict[str, None] = {}
    for (actions,) in rows:
        for action in unpack_facts(actions):
            if action.get("is_edit"):
                files.update(dict.fromkeys(str(one) for one in action.get("files", ())))
    return list(files)


def pinned_episodes(store: Reader, project_id: int, limit: int = 100) -> list[Episode]:
    """Pinned memories of a project and of global scope, the newest first; an id of no project: global ones alone."""
    episode = tables.Episode
    condition = (episode.is_pinned == 1) & _is_active_in(project_id)
    return select_episodes(store, condition, episode.created_at_ms.desc(), episode.id.desc(), limit=limit)


def count_active(store: Reader, project_id: int) -> int:
    """Active memories of a project and of global scope."""
    return int(store.fetch_value(tables.Episode.select(fn.count(SQL("*"))).where(_is_active_in(project_id))))


def _is_active_in(project_id: int) -> ColumnBase:
    episode = tables.Episode
    condition: ColumnBase = (episode.status == Status.ACTIVE.value) & (IS_GLOBAL | (episode.project == project_id))
    return condition
