"""What a session or project was about lately: the latest turn, its files, and the memories that are pinned."""

from __future__ import annotations

from engram.models.conditions import IS_ACTIVE, IS_GLOBAL
from engram.models.episodes import Episode, select_episodes
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
    return select_episodes(
        store,
        f"e.is_pinned = 1 AND {IS_ACTIVE} AND ({IS_GLOBAL} OR e.project_id = ?)",
        (project_id,),
        order="e.created_at_ms DESC, e.id DESC",
        limit=limit,
    )


def count_active(store: Reader, project_id: int) -> int:
    """Active memories of a project and of global scope."""
    return int(
        store.value(
            f"SELECT count(*) FROM episode e WHERE {IS_ACTIVE} AND ({IS_GLOBAL} OR e.project_id = ?)",
            (project_id,),
        )
    )
