"""What a search needs of passages: light rows of candidates, full places of hits."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from peewee import JOIN, ModelSelect, Query, fn

from engram.models import tables
from engram.models.evidence_places import EvidencePlace
from engram.models.records import RecordReader
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader
from engram.models.uuids import unpack_uuid

#: Passages of a time that are looked at, before they are thinned out.
MAX_PASSAGES_BETWEEN = 20_000


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
    #: The turn's id that never changes.
    turn_stable_id: str


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
    return PassagePlace(place=place, project=row.project, turn_stable_id=row.stable_id)


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
    return [(row.episode, row.passage, bool(row.is_source)) for row in rows]


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
        evidence.episode.alias("episode"),
        passage.id.alias("passage"),
        fn.MAX(fn.COALESCE(block.uuid == evidence.uuid, 0)).alias("is_source"),
    )
    query = query.join(passage, on=passage.turn_id == evidence.turn_id).join(block, on=passage.text_block == block.id)
    return query.where(in_json_list(evidence.episode, episode_ids)).group_by(evidence.episode, passage.id)


@prepared
def _places(ids: str) -> Query:
    passage, block, turn, session = tables.Passage, tables.TextBlock, tables.Turn, tables.Session
    query = (
        passage.select(
            passage.id,
            session.session_id,
            block.uuid,
            tables.Transcript.path,
            tables.Transcript.part,
            block.line,
            block.offset,
            fn.COALESCE(tables.Project.name, "").alias("project"),
            turn.stable_id,
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
