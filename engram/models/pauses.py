"""When what was paused: kept for good, so that what was said in a pause is never read, however late its file is."""

from __future__ import annotations

import json

from engram.models.store import Store
from engram.models.transaction import Reader, Tx

#: Pauses that are remembered at most; the oldest go first.
MOST_PAUSES = 2_000
_KEY = "pauses"

#: From when until when, in milliseconds since 1970; the end does not belong to it.
Span = tuple[int, int]


def note_pause(tx: Tx, scope: str, until_ms: int) -> None:
    """A scope is paused from now on, or goes on being paused, until a time."""
    now, spans = tx.now_ms(), _read(tx)
    going_on = [span for span in spans if span[0] == scope and span[1] <= now < span[2]]
    begun = min((span[1] for span in going_on), default=now)
    _write(tx, [*(span for span in spans if span not in going_on), (scope, begun, until_ms)])


def note_end(tx: Tx, scope: str) -> None:
    """The pause of a scope ends now."""
    now = tx.now_ms()
    _write(tx, [(one, begin, min(end, now) if one == scope else end) for one, begin, end in _read(tx)])


def pauses_of(store: Reader, scope: str | None) -> list[Span]:
    """When everything, or this scope, was or is paused; None for what belongs to no scope of its own."""
    return [(begin, end) for one, begin, end in _read(store) if one in ("", scope)]


def carry_pauses(tx: Tx, source: Store, *, is_newer: bool) -> None:
    """Take over the pauses of another memory; where both know one, the newer memory's end counts."""
    here = {(scope, begin): end for scope, begin, end in _read(tx)}
    there = {(scope, begin): end for scope, begin, end in _read(source)}
    both = here | there if is_newer else there | here
    _write(tx, sorted(((scope, begin, end) for (scope, begin), end in both.items()), key=lambda span: span[1]))


def move_pauses(tx: Tx, scope: str, to_scope: str) -> None:
    """What was paused of one scope counts for another one from now on: they became one project."""
    _write(tx, [(to_scope if one == scope else one, begin, end) for one, begin, end in _read(tx)])


def _read(store: Reader) -> list[tuple[str, int, int]]:
    found = store.value("SELECT value FROM meta WHERE key = ?", (_KEY,))
    return [] if found is None else [(str(one), int(begin), int(end)) for one, begin, end in json.loads(found)]


def _write(tx: Tx, spans: list[tuple[str, int, int]]) -> None:
    kept = [span for span in spans if span[1] < span[2]][-MOST_PAUSES:]
    tx.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (_KEY, json.dumps(kept)))
