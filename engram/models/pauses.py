"""When what was paused: kept for good, so that what was said in a pause is never read, however late its file is."""

from __future__ import annotations

import json

from engram.models.store import Store

#: Pauses that are remembered at most; the oldest go first.
MOST_PAUSES = 2_000
_KEY = "pauses"

#: From when until when, in milliseconds since 1970; the end does not belong to it.
Span = tuple[int, int]


def note_pause(store: Store, scope: str, until_ms: int) -> None:
    """A scope is paused from now on, or goes on being paused, until a time. Inside ``writing``."""
    now, spans = store.now_ms(), _read(store)
    going_on = [span for span in spans if span[0] == scope and span[1] <= now < span[2]]
    begun = min((span[1] for span in going_on), default=now)
    _write(store, [*(span for span in spans if span not in going_on), (scope, begun, until_ms)])


def note_end(store: Store, scope: str) -> None:
    """The pause of a scope ends now. Inside ``writing``."""
    now = store.now_ms()
    _write(store, [(one, begin, min(end, now) if one == scope else end) for one, begin, end in _read(store)])


def pauses_of(store: Store, scope: str | None) -> list[Span]:
    """When everything, or this scope, was or is paused; None for what belongs to no scope of its own."""
    return [(begin, end) for one, begin, end in _read(store) if one in ("", scope)]


def carry_pauses(store: Store, source: Store, *, is_newer: bool) -> None:
    """Take over the pauses of another memory; where both know one, the newer memory's end counts. Inside ``writing``."""
    here = {(scope, begin): end for scope, begin, end in _read(store)}
    there = {(scope, begin): end for scope, begin, end in _read(source)}
    both = here | there if is_newer else there | here
    _write(store, sorted(((scope, begin, end) for (scope, begin), end in both.items()), key=lambda span: span[1]))


def move_pauses(store: Store, scope: str, to_scope: str) -> None:
    """What was paused of one scope counts for another one from now on: they became one project. Inside ``writing``."""
    _write(store, [(to_scope if one == scope else one, begin, end) for one, begin, end in _read(store)])


def _read(store: Store) -> list[tuple[str, int, int]]:
    found = store.value("SELECT value FROM meta WHERE key = ?", (_KEY,))
    return [] if found is None else [(str(one), int(begin), int(end)) for one, begin, end in json.loads(found)]


def _write(store: Store, spans: list[tuple[str, int, int]]) -> None:
    kept = [span for span in spans if span[1] < span[2]][-MOST_PAUSES:]
    store.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (_KEY, json.dumps(kept)))
