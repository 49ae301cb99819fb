"""What memory did in a time: what was read, kept, shown and opened, and whether its weekly line was said."""

from __future__ import annotations

from dataclasses import dataclass

from engram.errors import StoreError
from engram.models.conditions import IS_CURRENT
from engram.models.injections import AT_START
from engram.models.meta import get_meta
from engram.models.store import Store
from engram.models.transaction import Reader

#: Longest wait for the write lock to claim the weekly line, in milliseconds: a hook waits for the answer.
MAX_CLAIM_WAIT_MS = 20
_TOLD = "report_told_ms"


@dataclass(frozen=True, slots=True)
class MostUsed:
    """The memory that was shown and opened most often."""

    episode_id: str
    summary: str
    #: Display name of its project; "" for none.
    project: str
    project_id: int | None
    scope: str
    uses: int
    #: False for what is never shown to Claude by itself: out of force, suspect or lowered.
    may_be_shown: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """What memory did since a time."""

    #: Sessions that went on.
    sessions: int
    #: Turns that begin with a prompt.
    prompts: int
    #: Memories of what was said or saved.
    memories: int
    #: Names of projects in which somebody prompted and nothing was kept.
    projects_with_none: tuple[str, ...]
    #: Bites that Claude was shown at a prompt or a tool call.
    shown: int
    #: Memories that were expanded.
    opened: int
    #: None where none was shown or opened.
    most_used: MostUsed | None


def usage_since(store: Store, since_ms: int) -> Usage:
    """Figures from ``since_ms`` until now, in one consistent view."""
    with store.snapshot():
        return Usage(
            sessions=_number(store, "SELECT count(*) FROM session WHERE last_at_ms >= ?", since_ms),
            prompts=_number(
                store, "SELECT count(*) FROM turn WHERE opening <> 'continuation' AND started_at_ms >= ?", since_ms
            ),
            memories=_number(store, "SELECT count(*) FROM episode WHERE created_at_ms >= ?", since_ms),
            projects_with_none=_projects_with_none(store, since_ms),
            shown=_number(
                store,
                f"SELECT count(*) FROM injection WHERE state = 'shown' AND channel <> '{AT_START}' AND at_ms >= ?",
                since_ms,
            ),
            opened=_number(store, "SELECT count(*) FROM episode WHERE accessed_at_ms >= ?", since_ms),
            most_used=_most_used(store, since_ms),
        )


def _number(store: Reader, sql: str, since_ms: int) -> int:
    return int(store.value(sql, (since_ms,)))


def _projects_with_none(store: Reader, since_ms: int) -> tuple[str, ...]:
    rows = store.rows(
        "SELECT p.name FROM project p WHERE EXISTS (SELECT 1 FROM turn t WHERE t.project_id = p.id "
        "AND t.opening <> 'continuation' AND t.started_at_ms >= ?) AND NOT EXISTS "
        "(SELECT 1 FROM episode e WHERE e.project_id = p.id AND e.created_at_ms >= ?) ORDER BY p.name",
        (since_ms, since_ms),
    )
    return tuple(str(row[0]) for row in rows)


def _most_used(store: Reader, since_ms: int) -> MostUsed | None:
    found = store.row(
        "SELECT e.episode_id, e.summary, coalesce(p.name, ''), e.project_id, e.scope, sum(u.uses) AS uses, "
        f"{IS_CURRENT} AND e.suspect = '' AND e.is_lowered = 0 FROM "
        "(SELECT episode_id, count(*) AS uses FROM injection WHERE state = 'shown' AND channel <> ? AND at_ms >= ? "
        "GROUP BY episode_id UNION ALL "
        "SELECT episode_id, count(*) FROM injection WHERE expanded_at_ms >= ? GROUP BY episode_id UNION ALL "
        "SELECT episode_id, 1 FROM episode WHERE accessed_at_ms >= ?) u "
        "JOIN episode e ON e.episode_id = u.episode_id LEFT JOIN project p ON p.id = e.project_id "
        "GROUP BY e.id ORDER BY uses DESC, e.created_at_ms DESC LIMIT 1",
        (AT_START, since_ms, since_ms, since_ms),
    )
    if found is None:
        return None
    return MostUsed(
        episode_id=found[0],
        summary=found[1],
        project=found[2],
        project_id=found[3],
        scope=found[4],
        uses=found[5],
        may_be_shown=bool(found[6]),
    )


def told_at_ms(store: Reader) -> int | None:
    """When the line of the report was last said; None where it never was."""
    found = get_meta(store, _TOLD)
    return None if found is None else int(found)


def claim_telling(store: Store, every_ms: int) -> bool:
    """True for the one caller that may say the line of the report now; of any number that race, one wins.

    False as well where somebody else is writing: the line then waits for the next briefing.
    """
    now, usual = store.now_ms(), int(store.value("PRAGMA busy_timeout") or 0)
    store.rows(f"PRAGMA busy_timeout = {MAX_CLAIM_WAIT_MS}")
    try:
        with store.transaction() as tx:
            sql = (
                "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value "
                "WHERE CAST(value AS INTEGER) <= ? OR CAST(value AS INTEGER) > ?"
            )
            return tx.run(sql, (_TOLD, str(now), now - every_ms, now)) == 1
    except StoreError:
        return False
    finally:
        store.rows(f"PRAGMA busy_timeout = {usual}")
