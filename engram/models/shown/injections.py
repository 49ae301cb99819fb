"""The ledger of what was shown to agents in each session, and what is still pending."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from peewee import ColumnBase, Query

from engram.models import tables
from engram.models.engine.statement import RecordReader
from engram.models.engine.transaction import Reader, Store, Tx, asks_rows, writes
from engram.paths import Home
from engram.system.atomic import read_regular

#: Channel of memories that are shown in a briefing.
AT_START = "start"

#: Prompt key of a briefing's memories, and name under which the briefing itself is recorded as shown.
BRIEFING = "briefing"

#: The condition that a bite was shown: at a prompt, at a tool call or in a briefing. All totals of shown bites use it.
WAS_SHOWN: ColumnBase = tables.Injection.state == "shown"

#: Prefix of the prompt key of bites that were shown to a subagent and not to its parent.
AGENT_KEY = "agent:"

#: Maximum number of bytes to search in a file with bites that wait for a tool call.
_MAX_WAITING_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Injection:
    """A bite that has been shown or is pending."""

    session_id: str
    #: Identifies the prompt by its id or, if it has none, by a hash of its text.
    prompt_key: str
    #: A ``Channel``.
    channel: str
    episode_id: str
    score: float
    tokens: int
    #: pending or shown.
    state: str
    at_ms: int = 0
    #: When the session used the memory after it was shown; None if it did not.
    used_at_ms: int | None = None
    id: int = 0


_INJECTIONS = RecordReader(Injection, tables.Injection, left_out={"is_cleared"})


def agent_key(agent_id: str, moment: str = "") -> str:
    """Return the prompt key of bites that are shown to a subagent when it starts or, with ``moment``, later."""
    return f"{AGENT_KEY}{agent_id}:{moment}" if moment else f"{AGENT_KEY}{agent_id}"


def is_of_agent(prompt_key: str) -> bool:
    """Return True for the prompt key of bites that were shown to a subagent."""
    return prompt_key.startswith(AGENT_KEY)


def add_injections(tx: Tx, injections: Sequence[Injection]) -> None:
    names = ("session_id", "prompt_key", "channel", "episode_id", "score", "tokens", "state")
    rows = [
        {name: getattr(injection, name) for name in names} | {"at_ms": injection.at_ms or tx.now_ms()}
        for injection in injections
    ]
    tx.insert_many(tables.Injection, rows)


def briefing_injections(session_id: str, episode_ids: Sequence[str], at_ms: int) -> list[Injection]:
    """Return the ledger entries for a briefing's memories, without tokens, which are counted with the briefing."""
    return [
        Injection(
            session_id=session_id,
            prompt_key=BRIEFING,
            channel=AT_START,
            episode_id=episode_id,
            score=0.0,
            tokens=0,
            state="shown",
            at_ms=at_ms,
        )
        for episode_id in episode_ids
    ]


def drop_briefing(tx: Tx, session_id: str) -> None:
    """Delete the records of a briefing that was not shown after all; bites that were shown since stay recorded."""
    injection, shown = tables.Injection, tables.Shown
    is_of_briefing = (injection.channel == AT_START) & (injection.is_cleared == 0)
    tx.run(injection.delete().where((injection.session_id == session_id) & is_of_briefing))
    tx.run(shown.delete().where((shown.session_id == session_id) & (shown.what == BRIEFING)))


@asks_rows(lambda rows: {str(row.episode_id) for row in rows})
def injected_ids(session_id: str) -> Query:
    """Return the ids of the memories shown in a session since its context was last cleared, including pending ones.

    Memories shown to its subagents are not included.
    """
    injection = tables.Injection
    query = injection.select(injection.episode_id).distinct()
    is_own = ~injection.prompt_key.startswith(AGENT_KEY)
    return query.where((injection.session_id == session_id) & (injection.is_cleared == 0) & is_own)


def injections_of_session(store: Reader, session_id: str) -> list[Injection]:
    """Return the bites of a session in the order in which they were shown, or created if they are pending."""
    query = _INJECTIONS.select().where(tables.Injection.session_id == session_id)
    return store.fetch_records(_INJECTIONS, query.order_by(tables.Injection.at_ms, tables.Injection.id))


def injections_of_memory(store: Reader, episode_id: str) -> list[Injection]:
    """Return the bites of a memory, latest first."""
    query = _INJECTIONS.select().where(tables.Injection.episode_id == episode_id)
    return store.fetch_records(_INJECTIONS, query.order_by(tables.Injection.id.desc()))


@writes
def drop_pending(session_id: str) -> Query:
    """Delete the pending bites of a session; return how many there were."""
    injection = tables.Injection
    return injection.delete().where((injection.session_id == session_id) & (injection.state == "pending"))


@writes
def drop_late(session_id: str, prompt_key: str) -> Query:
    """Delete the bites that came too late for a prompt, and those that were pending for it."""
    injection = tables.Injection
    is_late = (injection.state == "pending") | ((injection.state == "shown") & (injection.channel == "prompt"))
    return injection.delete().where(
        (injection.session_id == session_id) & (injection.prompt_key == prompt_key) & is_late
    )


def drop_given(tx: Tx, session_id: str, prompt_key: str) -> None:
    """Delete the bites of a prompt, because they were not shown after all."""
    injection = tables.Injection
    tx.run(injection.delete().where((injection.session_id == session_id) & (injection.prompt_key == prompt_key)))


def clear_ledger(store: Store, session_id: str) -> None:
    """Record that the agent's context was cleared or compacted, so that everything may be shown again."""
    with store.transaction() as tx:
        tx.run(tables.Injection.update(is_cleared=True).where(tables.Injection.session_id == session_id))
        tx.run(tables.Shown.delete().where(tables.Shown.session_id == session_id))


def note_shown(store: Store, session_id: str, what: str, tokens: int) -> bool:
    """Record that something, such as a briefing, was shown in a session; return False if it already had been."""
    with store.transaction() as tx:
        query = tables.Shown.insert(session_id=session_id, what=what, at_ms=tx.now_ms(), tokens=tokens)
        return tx.run(query.on_conflict_ignore()) == 1


def shown_of_session(store: Reader, session_id: str) -> list[tuple[str, int, int]]:
    """Return (what, when, tokens) for everything except bites that was shown in a session."""
    query = tables.Shown.select().where(tables.Shown.session_id == session_id).order_by(tables.Shown.at_ms)
    return [(row.what, row.at_ms, row.tokens) for row in store.fetch(query)]


@writes
def mark_shown(session_id: str, prompt_key: str, at_ms: int) -> Query:
    """Record when the pending bites of a prompt were injected, in milliseconds since 1970."""
    injection = tables.Injection
    of_prompt = (injection.session_id == session_id) & (injection.prompt_key == prompt_key)
    return injection.update(state="shown", at_ms=at_ms).where(of_prompt & (injection.state == "pending"))


def withdraw_bites(tx: Tx, names: Callable[[], Collection[str]]) -> None:
    """Remove the files next to memory.db whose waiting bites mention a memory or a quotation by its id.

    A hook prints such a file without asking the worker. All bites in it are withdrawn, so they may be chosen again.

    Args:
        names: returns the ids; called only if there are such files.
    """
    home = Home(tx.path.parent)
    # A copy of memory.db in the same folder says nothing about what is shown now.
    files = list(home.recollections.glob("*.pending")) if tx.path == home.memory_db else []
    ids = names() if files else ()
    for path in files:
        text = (read_regular(path, _MAX_WAITING_BYTES) or b"").decode("utf-8", "replace")
        if any(name in text for name in ids):
            with contextlib.suppress(OSError):
                path.unlink()
                drop_pending(tx, path.stem)
