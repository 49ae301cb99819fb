"""Passages as a search and a reader need them: light rows of candidates, full places of hits, and quotations.

A quotation is a passage under an id that says where it was said (``engram.models.sessions.stored_turns``). No table
lists them. A
text that is split into passages in another way later is found by the passage in which the character of the id is. What
was judged is in the history, as of memories.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from peewee import JOIN, ModelSelect, Query, fn

from engram.enums import Actor, Judgement
from engram.errors import NotFound
from engram.models import tables
from engram.models.engine.packed import unpack_uuid
from engram.models.engine.statement import RecordReader, in_json_list, is_same, prepared
from engram.models.engine.transaction import Reader, Tx
from engram.models.memories.judgements import judgement_of, standing_judgements
from engram.models.memories.memory_history import add_history, drop_history, history_of
from engram.models.sessions.passages import EvidencePlace
from engram.models.sessions.stored_turns import (
    StoredTurn,
    cut_key,
    load_turn_row,
    parse_quotation_id,
    quotation_id,
    quotation_prefix,
    turns_of_cut_key,
    turns_of_cut_keys,
)
from engram.transcripts.turns import Opening, Role

#: Passages of a time that are looked at, before they are thinned out.
MAX_PASSAGES_BETWEEN = 20_000
#: Of a longer text only the beginning is read to see what followed, in characters.
MAX_LATER_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class PassageRow:
    """A passage that may become a hit."""

    id: int
    turn_id: int
    session_ref: int
    project_id: int | None
    #: user or assistant.
    role: str
    said_id: int
    text: str
    #: When it was said, in milliseconds since 1970; 0 where it is not known.
    at_ms: int
    #: Where it begins in its text, and how long that is, in characters.
    start: int
    said_chars: int
    #: True where nothing was said after it in its turn, as far as is stored.
    is_closing: bool


@dataclass(frozen=True, slots=True)
class PassagePlace:
    """Where a passage stands."""

    place: EvidencePlace
    #: Display name of the project; "" for none.
    project: str
    #: Id of the passage as a quotation, which no reading changes.
    quotation_id: str
    #: The folder that it was said in; "" if it is not known.
    cwd: str = ""


def passage_rows(store: Reader, ids: Sequence[int]) -> dict[int, PassageRow]:
    """Row id → passage, for those that exist."""
    return {row.id: row for row in store.fetch_records(_PASSAGES, _passages(json.dumps(list(ids))))}


def passage_places(store: Reader, ids: Sequence[int]) -> dict[int, PassagePlace]:
    """Row id → where the passage stands."""
    return {row.id: _place(row) for row in store.fetch(_places(json.dumps(list(ids))))}


def _place(row: Any) -> PassagePlace:
    place = EvidencePlace(
        session_id=row.session_id,
        uuid=unpack_uuid(row.uuid),
        path=os.fsdecode(bytes(row.path)),
        line=row.line,
        part=row.part,
        position=row.offset,
    )
    source, position = unpack_uuid(row.uuid) or row.key, (row.before or 0) + row.start
    return PassagePlace(place=place, project=row.project, quotation_id=quotation_id(source, position), cwd=row.cwd)


def texts_of_blocks(store: Reader, ids: Sequence[int]) -> dict[int, str]:
    """Row id of a text block → its whole text, for those that exist."""
    return {row.id: row.text for row in store.fetch(_block_texts(json.dumps(list(ids))))}


def passage_turns(store: Reader, ids: Sequence[int]) -> dict[int, tuple[str, int]]:
    """Row id → session and row id of the turn that a passage is part of, for those that exist."""
    return {row.id: (row.session_id, row.turn_id) for row in store.fetch(_turns_of(json.dumps(list(ids))))}


def passage_spots(store: Reader, ids: Sequence[int], project_id: int | None = None) -> list[tuple[int, int, int, int]]:
    """``(row id, session, turn, said)`` of passages that exist, ordered by row id; of one project where it is named."""
    listed = json.dumps(list(ids))
    query = _spots(listed) if project_id is None else _spots_of_project(listed, project_id)
    return [tuple(row) for row in store.fetch(query)]


def passages_of_evidence(store: Reader, episode_ids: Sequence[int]) -> list[tuple[int, int, bool]]:
    """``(row id of a memory, row id of a passage, whether an entry that the memory rests on says it)``.

    The passages are those of the turns that the memories rest on.
    """
    rows = store.fetch(_of_evidence(json.dumps(list(episode_ids))))
    return [(row.memory, row.passage, bool(row.is_source)) for row in rows]


def passages_between(
    store: Reader, start_ms: int, stop_ms: int, *, project_id: int | None = None, limit: int = 400
) -> list[int]:
    """Row ids of passages of the turns that began in a time, at most ``limit``, spread evenly over it."""
    turn, passage = tables.Turn, tables.Passage
    query = turn.select(passage.id).join(passage, on=passage.turn_id == turn.id)
    query = query.where((turn.started_at_ms >= start_ms) & (turn.started_at_ms < stop_ms))
    if project_id is not None:
        query = query.where(turn.project == project_id)
    ids = store.fetch_values(query.order_by(passage.id).limit(MAX_PASSAGES_BETWEEN))
    return ids[:: max(1, -(-len(ids) // limit))]


# -- quotations


@dataclass(frozen=True, slots=True)
class Quotation:
    """A passage of a turn, as it was said."""

    quotation_id: str
    #: The turn that it was said in.
    stored: StoredTurn
    #: Row id of the passage.
    row_id: int
    #: Uuid of the entry that says it; the key of the turn for a queued prompt.
    source: str
    role: Role
    text: str
    #: In milliseconds since 1970; 0 if it is not known.
    at_ms: int

    @property
    def asked(self) -> str:
        """The prompt that it is an answer to; "" for what was asked itself."""
        return "" if self.role is Role.USER else self.stored.turn.prompt


def find_quotation(store: Reader, text: str) -> Quotation | None:
    """Return the quotation of an id; None if nothing like it is stored."""
    parsed = parse_quotation_id(text)
    if parsed is None:
        return None
    key, position = parsed
    # A queued prompt has no entry: it goes by the key of its turn.
    turn_ids = turns_of_cut_key(store, key) or [row.id for row in store.fetch(_queued()) if cut_key(row.key) == key]
    for turn_id in turn_ids:
        stored = load_turn_row(store, turn_id)
        if stored is None:
            continue
        before: dict[str, int] = {}
        for row in store.fetch(_blocks_of(turn_id)):
            source = unpack_uuid(row.uuid) or stored.turn.key
            start = before.get(source, 0)
            before[source] = start + row.length + 1
            if cut_key(source) == key and start <= position < start + row.length:
                return _passage_at(store, text, stored, source, row.id, position - start)
    return None


def quotations_beginning_with(store: Reader, beginning: str, limit: int) -> list[Quotation]:
    """Return the quotations whose id begins with ``q_`` and 1 to 12 hexadecimal digits, at most ``limit``.

    Prompts that were queued are found by their whole ids only: they have no entry of their own.
    """
    quotations: list[Quotation] = []
    for turn_id in turns_of_cut_keys(store, beginning.removeprefix("q_")):
        stored = load_turn_row(store, turn_id)
        before: dict[str, int] = {}
        for row in store.fetch(_blocks_of(turn_id)) if stored is not None else ():
            assert stored is not None
            source = unpack_uuid(row.uuid) or stored.turn.key
            offset = before.get(source, 0)
            before[source] = offset + row.length + 1
            if not quotation_prefix(source).startswith(beginning):
                continue
            for start in store.fetch_values(_starts_of(row.id)):
                name = quotation_id(source, offset + int(start))
                found = _passage_at(store, name, stored, source, row.id, int(start))
                quotations += [] if found is None else [found]
                if len(quotations) == limit:
                    return quotations
    return quotations


@dataclass(frozen=True, slots=True)
class LaterText:
    """What was said after a passage in its session."""

    role: str
    text: str
    at_ms: int

    def with_text(self, text: str) -> LaterText:
        """Return a part of it."""
        return replace(self, text=text)


def said_after(store: Reader, row_id: int, limit: int) -> list[LaterText]:
    """Return the beginnings of the texts after a passage in its session, in the order in which they were said."""
    place = store.fetch_first(_place_of(row_id))
    if place is None:
        return []
    rows = store.fetch(_texts_after(place.session_ref, place.at_ms, place.said_id, limit))
    return [LaterText(row.role, row.text, row.at_ms) for row in rows]


def require_quotation(store: Reader, text: str) -> Quotation:
    """Return the quotation of an id. Raises NotFound if nothing like it is stored (any more)."""
    quotation = find_quotation(store, text)
    if quotation is None:
        raise NotFound(f"there is no quotation {text[:40]!r}; it was forgotten, or never said here")
    return quotation


def _passage_at(
    store: Reader, text: str, stored: StoredTurn, source: str, said_id: int, position: int
) -> Quotation | None:
    """Return the passage of a text in which a character is, or the last that begins before it."""
    row_id = store.fetch_value(_passage_before(said_id, position))
    row = None if row_id is None else passage_rows(store, [int(row_id)]).get(int(row_id))
    if row is None:
        return None
    return Quotation(text, stored, row.id, source, Role(row.role), row.text, row.at_ms)


# -- what somebody found of quotations; their history is written as that of memories is


def note_quotation_judgement(tx: Tx, text: str, action: str, reason: str, *, actor: Actor) -> None:
    """Add a judgement on a quotation, or that one was taken back, to its history."""
    add_history(tx, text, action, reason, {}, {}, actor=actor)


def judged_quotations(store: Reader) -> dict[str, Judgement]:
    """Return the judgement that stands of each quotation that was judged, by its id."""
    standing = {name: standing_judgements(history_of(store, name)) for name in store.fetch_values(_judged_ids())}
    return {name: judgement_of(changes[-1]) for name, changes in standing.items() if changes}


def barred_quotations(store: Reader) -> tuple[set[int], set[str]]:
    """Return the row ids and the texts of passages that were judged wrong or outdated: they are not told again."""
    judged = judged_quotations(store)
    barred = [name for name, judgement in judged.items() if judgement is not Judgement.HELPFUL]
    found = [one for name in barred if (one := find_quotation(store, name)) is not None]
    return {one.row_id for one in found}, {plain(one.text) for one in found}


def plain(text: str) -> str:
    """Return a text by which two passages are compared: without case and breaks."""
    return " ".join(text.split()).casefold()


def drop_quotations(tx: Tx, sources: Iterable[str]) -> None:
    """Delete what is recorded of the quotations of entries: judgements, and where they were shown."""
    recorded = _recorded_ids(tx)
    prefixes = {quotation_prefix(source) for source in sources} if recorded else set()
    for name in recorded:
        if name[: len("q_") + 12] in prefixes:
            drop_history(tx, name)
            for table in (tables.Injection, tables.OutcomeCandidate):
                tx.run(table.delete().where(table.episode_id == name))


def _recorded_ids(store: Reader) -> set[str]:
    """Return the ids of the quotations that were judged, shown or considered."""
    names: set[str] = set()
    for table in (tables.History, tables.Injection, tables.OutcomeCandidate):
        query = table.select(table.episode_id).distinct().where(table.episode_id.between("q_", "q_g"))
        names |= set(store.fetch_values(query))
    return names


# -- queries


def _passage_columns() -> dict[str, Any]:
    passage, block, turn = tables.Passage, tables.TextBlock, tables.Turn
    later = block.alias("later")
    later_blocks = later.select(later.id).where((later.turn == passage.turn_id) & (later.seq > block.seq))
    return {
        "text": fn.SUBSTR(block.text, passage.start + 1, passage.stop - passage.start),
        "at_ms": fn.COALESCE(block.at_ms, turn.started_at_ms, 0),
        "said_chars": fn.LENGTH(block.text),
        "is_closing": ~fn.EXISTS(later_blocks),
    }


_PASSAGES = RecordReader(
    PassageRow, tables.Passage, expressions=_passage_columns(), readers={"is_closing": bool}, left_out={"stop"}
)


@prepared
def _passages(ids: str) -> Query:
    passage, block, turn = tables.Passage, tables.TextBlock, tables.Turn
    query = _PASSAGES.select().join(block).join_from(passage, turn, on=turn.id == passage.turn_id)
    return query.where(in_json_list(passage.id, ids))


@prepared
def _block_texts(ids: str) -> Query:
    block = tables.TextBlock
    return block.select(block.id, block.text).where(in_json_list(block.id, ids))


@prepared
def _turns_of(ids: str) -> Query:
    passage, turn, session = tables.Passage, tables.Turn, tables.Session
    query = passage.select(passage.id, session.session_id, passage.turn_id)
    query = query.join(turn, on=turn.id == passage.turn_id).join(session, on=session.id == turn.session)
    return query.where(in_json_list(passage.id, ids))


@prepared
def _of_evidence(episode_ids: str) -> Query:
    evidence, passage, block = tables.Evidence, tables.Passage, tables.TextBlock
    query = evidence.select(
        evidence.memory.alias("memory"),
        passage.id.alias("passage"),
        fn.MAX(fn.COALESCE(block.uuid == evidence.uuid, 0)).alias("is_source"),
    )
    query = query.join(passage, on=passage.turn_id == evidence.turn_id).join(block, on=passage.text_block == block.id)
    return query.where(in_json_list(evidence.memory, episode_ids)).group_by(evidence.memory, passage.id)


@prepared
def _places(ids: str) -> Query:
    passage, block, turn, session = tables.Passage, tables.TextBlock, tables.Turn, tables.Session
    earlier = block.alias("earlier")
    of_entry = (earlier.turn == block.turn) & (earlier.seq < block.seq) & is_same(earlier.uuid, block.uuid)
    query = (
        passage.select(
            passage.id,
            passage.start,
            earlier.select(fn.SUM(fn.LENGTH(earlier.text) + 1)).where(of_entry).alias("before"),
            session.session_id,
            block.uuid,
            tables.Transcript.path,
            tables.Transcript.part,
            block.line,
            block.offset,
            fn.COALESCE(tables.Project.name, "").alias("project"),
            turn.key,
            turn.cwd,
        )
        .join(block)
        .join_from(passage, turn, on=turn.id == passage.turn_id)
        .join_from(passage, session, on=session.id == passage.session_ref)
        .join_from(turn, tables.Transcript)
        .join_from(passage, tables.Project, JOIN.LEFT_OUTER, on=tables.Project.id == passage.project_id)
    )
    return query.where(in_json_list(passage.id, ids))


def _spots_of(ids: str) -> ModelSelect[Any]:
    passage = tables.Passage
    query = passage.select(passage.id, passage.session_ref, passage.turn_id, passage.text_block)
    return query.where(in_json_list(passage.id, ids)).order_by(passage.id)


@prepared
def _spots(ids: str) -> Query:
    return _spots_of(ids)


@prepared
def _spots_of_project(ids: str, project_id: int) -> Query:
    return _spots_of(ids).where(tables.Passage.project_id == project_id)


@prepared
def _queued() -> Query:
    turn = tables.Turn
    return turn.select(turn.id, turn.key).where(turn.opening == Opening.QUEUED.value)


@prepared
def _blocks_of(turn_id: int) -> Query:
    block = tables.TextBlock
    query = block.select(block.id, block.uuid, fn.LENGTH(block.text).alias("length"))
    return query.where(block.turn == turn_id).order_by(block.seq)


@prepared
def _starts_of(said_id: int) -> Query:
    passage = tables.Passage
    return passage.select(passage.start).where(passage.text_block == said_id).order_by(passage.start)


@prepared
def _passage_before(said_id: int, position: int) -> Query:
    passage = tables.Passage
    query = passage.select(passage.id).where((passage.text_block == said_id) & (passage.start <= position))
    return query.order_by(passage.start.desc()).limit(1)


@prepared
def _place_of(row_id: int) -> Query:
    passage, block, turn = tables.Passage, tables.TextBlock, tables.Turn
    at_ms = fn.COALESCE(block.at_ms, turn.started_at_ms, 0).alias("at_ms")
    query = passage.select(passage.session_ref, passage.text_block, at_ms).join(block)
    return query.join_from(passage, turn, on=turn.id == passage.turn_id).where(passage.id == row_id)


@prepared
def _texts_after(session_ref: int, at_ms: int, said_id: int, limit: int) -> Query:
    block, turn = tables.TextBlock, tables.Turn
    said_at_ms = fn.COALESCE(block.at_ms, turn.started_at_ms, 0)
    is_later = (said_at_ms > at_ms) | ((said_at_ms == at_ms) & (block.id > said_id))
    query = block.select(
        block.role, fn.SUBSTR(block.text, 1, MAX_LATER_CHARACTERS).alias("text"), said_at_ms.alias("at_ms")
    )
    query = query.join(turn).where((turn.session == session_ref) & is_later)
    return query.order_by(said_at_ms, block.id).limit(limit)


@prepared
def _judged_ids() -> Query:
    history = tables.History
    return history.select(history.episode_id).distinct().where(history.episode_id.between("q_", "q_g"))
