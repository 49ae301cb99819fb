"""Quotations: find passages by the ids that people and agents use, and record judgements on them.

No table lists quotations. If a text is later split differently, the id refers to the passage that contains its
position. Judgements are stored in the history, like those on memories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from peewee import Query, fn

from engram.enums import Actor, Judgement
from engram.errors import NotFound
from engram.models import tables
from engram.models.engine.packed import unpack_uuid
from engram.models.engine.statement import prepared
from engram.models.engine.transaction import Reader, Tx
from engram.models.memories.judgements import judgement_of, standing_judgements
from engram.models.memories.memory_history import add_history, drop_history, history_of
from engram.models.sessions.passage_rows import normalised_text, passage_rows
from engram.models.sessions.quotation_ids import (
    AFTER_PREFIX,
    ENTRY_CHARACTERS,
    PREFIX,
    cut_key,
    parse_quotation_id,
    quotation_id_of,
    quotation_prefix,
    turns_of_cut_keys,
)
from engram.models.sessions.stored_turns import StoredTurn, load_turn_row
from engram.transcripts.turns import Opening, Role


@dataclass(frozen=True, slots=True)
class Quotation:
    """A passage of a turn, verbatim."""

    quotation_id: str
    #: The turn in which it was said.
    stored: StoredTurn
    row_id: int
    #: Id of the entry that contains it, or the key of the turn for a queued prompt.
    source: str
    role: Role
    text: str
    #: In milliseconds since 1970; 0 if unknown.
    at_ms: int

    @property
    def asked(self) -> str:
        """The prompt that it answers; "" if it is a prompt itself."""
        return "" if self.role is Role.USER else self.stored.turn.prompt


def find_quotation(store: Reader, quotation_id: str) -> Quotation | None:
    """Return the quotation with an id; None if there is none."""
    parsed = parse_quotation_id(quotation_id)
    if parsed is None:
        return None
    key, position = parsed
    # A queued prompt has no entry, so it is identified by the key of its turn.
    turn = tables.Turn
    queued = turn.select(turn.id, turn.key).where(turn.opening == Opening.QUEUED.value)
    turn_ids = turns_of_cut_keys(store, f"{key:012x}") or [
        row.id for row in store.fetch(queued) if cut_key(row.key) == key
    ]
    for turn_id in turn_ids:
        stored = load_turn_row(store, turn_id)
        if stored is None:
            continue
        for source, row, start in _texts_of(store, stored):
            if cut_key(source) == key and start <= position < start + row.length:
                return _passage_at(store, quotation_id, stored, source, row.id, position - start)
    return None


def quotations_beginning_with(store: Reader, beginning: str, limit: int) -> list[Quotation]:
    """Return at most ``limit`` quotations with ids that begin with ``q_`` and the given 1 to 12 hexadecimal digits.

    Queued prompts, which have no entry of their own, can be found only by their complete ids.
    """
    quotations: list[Quotation] = []
    passage = tables.Passage
    for turn_id in turns_of_cut_keys(store, beginning.removeprefix(PREFIX)):
        stored = load_turn_row(store, turn_id)
        if stored is None:
            continue
        for source, row, offset in _texts_of(store, stored):
            if not quotation_prefix(source).startswith(beginning):
                continue
            starts = passage.select(passage.start).where(passage.text_block == row.id).order_by(passage.start)
            for start in store.fetch_values(starts):
                name = quotation_id_of(source, offset + int(start))
                found = _passage_at(store, name, stored, source, row.id, int(start))
                if found is not None:
                    quotations.append(found)
                if len(quotations) == limit:
                    return quotations
    return quotations


def _texts_of(store: Reader, stored: StoredTurn) -> Iterator[tuple[str, Any, int]]:
    """Yield (source, row, offset) for each text block of a turn; the source is the entry's id or the turn's key."""
    before: dict[str, int] = {}
    for row in store.fetch(_blocks_of(stored.id)):
        source = unpack_uuid(row.uuid) or stored.turn.key
        start = before.get(source, 0)
        before[source] = start + row.length + 1
        yield source, row, start


def require_quotation(store: Reader, quotation_id: str) -> Quotation:
    """Return the quotation with an id. Raises NotFound if there is none."""
    quotation = find_quotation(store, quotation_id)
    if quotation is None:
        raise NotFound(f"there is no quotation {quotation_id[:40]!r}; it was forgotten, or never existed")
    return quotation


def _passage_at(
    store: Reader, quotation_id: str, stored: StoredTurn, source: str, said_id: int, position: int
) -> Quotation | None:
    """Return the passage of a text block that contains a position, or the last one that begins before it."""
    row_id = store.fetch_value(_passage_before(said_id, position))
    row = None if row_id is None else passage_rows(store, [int(row_id)]).get(int(row_id))
    if row is None:
        return None
    return Quotation(quotation_id, stored, row.id, source, Role(row.role), row.text, row.at_ms)


def note_quotation_judgement(tx: Tx, quotation_id: str, action: str, reason: str, *, actor: Actor) -> None:
    """Add a judgement on a quotation, or the withdrawal of one, to its history."""
    add_history(tx, quotation_id, action, reason, {}, {}, actor=actor)


def judged_quotations(store: Reader) -> dict[str, Judgement]:
    """Return quotation id → the current judgement on it."""
    standing = {name: standing_judgements(history_of(store, name)) for name in store.fetch_values(_judged_ids())}
    return {name: judgement_of(changes[-1]) for name, changes in standing.items() if changes}


def barred_quotations(store: Reader) -> tuple[set[int], set[str]]:
    """Return the row ids and the texts of passages that were judged wrong or outdated, so they are not shown again."""
    judged = judged_quotations(store)
    barred = [name for name, judgement in judged.items() if judgement is not Judgement.HELPFUL]
    quotations = [found for name in barred if (found := find_quotation(store, name)) is not None]
    return {found.row_id for found in quotations}, {normalised_text(found.text) for found in quotations}


def drop_quotation_records(tx: Tx, sources: Iterable[str]) -> None:
    """Delete the records about the quotations of entries: judgements, showings and outcomes."""
    recorded = _recorded_ids(tx)
    prefixes = {quotation_prefix(source) for source in sources} if recorded else set()
    for name in recorded:
        if name[:ENTRY_CHARACTERS] in prefixes:
            drop_history(tx, name)
            for table in (tables.Injection, tables.OutcomeCandidate):
                tx.run(table.delete().where(table.episode_id == name))


def _recorded_ids(store: Reader) -> set[str]:
    """Return the ids of the quotations that were judged, shown or considered."""
    names: set[str] = set()
    for table in (tables.History, tables.Injection, tables.OutcomeCandidate):
        query = table.select(table.episode_id).distinct().where(table.episode_id.between(PREFIX, AFTER_PREFIX))
        names |= set(store.fetch_values(query))
    return names


@prepared
def _blocks_of(turn_id: int) -> Query:
    block = tables.TextBlock
    query = block.select(block.id, block.uuid, fn.LENGTH(block.text).alias("length"))
    return query.where(block.turn == turn_id).order_by(block.seq)


@prepared
def _passage_before(said_id: int, position: int) -> Query:
    passage = tables.Passage
    query = passage.select(passage.id).where((passage.text_block == said_id) & (passage.start <= position))
    return query.order_by(passage.start.desc()).limit(1)


@prepared
def _judged_ids() -> Query:
    history = tables.History
    return history.select(history.episode_id).distinct().where(history.episode_id.between(PREFIX, AFTER_PREFIX))
