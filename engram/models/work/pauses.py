"""Current and past pauses.

Past pauses are kept, so that text from a pause is never read, however late its file arrives.
"""

from __future__ import annotations

import json

from peewee import Query

from engram.models import tables
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.statement import prepared
from engram.models.engine.transaction import Reader, Store, Tx
from engram.paths import may_be_of, spellings_of

#: Maximum number of pauses that are stored; the oldest are dropped first.
MAX_PAUSES = 2_000
_KEY = "pauses"
#: The end of a pause without a time limit: the year 9999, in milliseconds since 1970.
FOREVER_MS = 253_370_764_800_000

#: Beginning and end, in milliseconds since 1970; the end is not included.
Span = tuple[int, int]


def pause(store: Store, scope: str, until_ms: int) -> None:
    """Stop reading, storing and injecting. ``scope`` is a project's identity, or "" for everything."""
    with store.transaction() as tx:
        tx.run(tables.Pause.insert(scope=scope, until_ms=until_ms).on_conflict_replace())
        note_pause(tx, scope, until_ms)


def resume(store: Store, scope: str) -> bool:
    """End a pause; return False if there was none."""
    with store.transaction() as tx:
        note_end(tx, scope)
        return tx.run(tables.Pause.delete().where(tables.Pause.scope.in_(spellings_of(scope)))) > 0


def paused_scopes(store: Reader) -> frozenset[str]:
    """Return what is paused, in every spelling of a project's identity."""
    return frozenset(spelling for scope in current_pauses(store) for spelling in spellings_of(scope))


def is_paused(store: Reader, identity: str) -> bool:
    """Return True if everything is paused, or the project to which something belongs, or may belong."""
    return any(not scope or may_be_of(identity, scope) for scope in current_pauses(store))


def current_pauses(store: Reader) -> dict[str, int]:
    """Return scope → end of its pause, in milliseconds since 1970, sorted by scope."""
    return {row.scope: row.until_ms for row in store.fetch(_pauses_at(store.now_ms()))}


@prepared
def _pauses_at(now_ms: int) -> Query:
    pause = tables.Pause
    return pause.select(pause.scope, pause.until_ms).where(pause.until_ms > now_ms).order_by(pause.scope)


def note_pause(tx: Tx, scope: str, until_ms: int) -> None:
    """Pause a scope until a time, from now or from the beginning of a pause that has not ended yet."""
    now, pauses = tx.now_ms(), _load(tx)
    going_on = [pause for pause in pauses if pause[0] == scope and pause[1] <= now < pause[2]]
    begun = min((pause[1] for pause in going_on), default=now)
    _save(tx, [*(pause for pause in pauses if pause not in going_on), (scope, begun, until_ms)])


def note_end(tx: Tx, scope: str) -> None:
    """End the pause of a scope now."""
    now, scopes = tx.now_ms(), spellings_of(scope)
    _save(tx, [(paused, begin, min(end, now) if paused in scopes else end) for paused, begin, end in _load(tx)])


def pauses_of(store: Reader, scope: str | None) -> list[Span]:
    """Return when a scope was or is paused, including pauses of everything; for None, only the latter."""
    return [(begin, end) for paused, begin, end in _load(store) if not paused or (scope and may_be_of(scope, paused))]


def carry_pauses(tx: Tx, source: Store, *, is_newer: bool) -> None:
    """Add the pauses of another database. For a pause that both have, the newer database's end applies."""
    here = {(scope, begin): end for scope, begin, end in _load(tx)}
    there = {(scope, begin): end for scope, begin, end in _load(source)}
    both = here | there if is_newer else there | here
    _save(tx, sorted(((scope, begin, end) for (scope, begin), end in both.items()), key=lambda pause: pause[1]))
    table, now = tables.Pause, tx.now_ms()
    for row in source.fetch(table.select(table.scope, table.until_ms)):
        tx.run(table.insert(scope=row.scope, until_ms=row.until_ms).on_conflict_ignore())
    for scope in {scope for scope, _ in both}:
        tx.run(table.delete().where(table.scope == scope))
        until = [end for (paused, begin), end in both.items() if paused == scope and begin <= now < end]
        if until:
            tx.run(table.insert(scope=scope, until_ms=max(until)))


def move_pauses(tx: Tx, scope: str, to_scope: str) -> None:
    """Assign the pauses of one scope to another one, because the two have become one project."""
    scopes = spellings_of(scope)
    _save(tx, [(to_scope if paused in scopes else paused, begin, end) for paused, begin, end in _load(tx)])


def _load(store: Reader) -> list[tuple[str, int, int]]:
    """Return (scope, begin, end) of every pause."""
    stored = json.loads(get_meta(store, _KEY) or "[]")
    return [(str(scope), int(begin), int(end)) for scope, begin, end in stored]


def _save(tx: Tx, pauses: list[tuple[str, int, int]]) -> None:
    put_meta(tx, _KEY, json.dumps([pause for pause in pauses if pause[1] < pause[2]][-MAX_PAUSES:]))
