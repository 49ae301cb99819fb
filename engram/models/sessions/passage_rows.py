"""Read passages: lightweight rows for candidates, full locations for hits, and the positions of entries in files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from peewee import JOIN, Query, fn

from engram.models import tables
from engram.models.engine.packed import entry_key, unpack_entries, unpack_uuid
from engram.models.engine.statement import RecordReader, in_json_list, is_same, prepared
from engram.models.engine.transaction import Reader, asks_keyed, asks_rows
from engram.models.sessions.quotation_ids import quotation_id_of
from engram.transcripts.turns import Role

#: Maximum number of passages read for a time span before they are thinned out.
MAX_PASSAGES_BETWEEN = 20_000
#: Maximum number of characters to read from each later text, and from the user's own text, to see what followed.
MAX_LATER_CHARACTERS, MAX_PROMPT_CHARACTERS = 4_000, 20_000


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
    #: When it was said, in milliseconds since 1970; 0 if unknown.
    at_ms: int
    #: Its offset in the text block, and the length of that block, in characters.
    start: int
    said_chars: int
    #: True if no later text of its turn is stored.
    is_closing: bool


@dataclass(frozen=True, slots=True)
class PassagePlace:
    place: EvidencePlace
    #: Display name of the project; "" if there is none.
    project: str
    #: Id of the passage as a quotation, which doesn't change when the session is read again.
    quotation_id: str
    #: The folder in which it was said; "" if unknown.
    cwd: str = ""


@asks_rows(lambda rows: {row.id: _place(row) for row in rows})
def passage_places(ids: Sequence[int]) -> Query:
    """Return row id → location of the passage."""
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
    return PassagePlace(place=place, project=row.project, quotation_id=quotation_id_of(source, position), cwd=row.cwd)


@asks_rows(lambda rows: {int(row.id): str(row.text) for row in rows})
def texts_of_blocks(ids: Sequence[int]) -> Query:
    """Return row id → text, for the text blocks that exist."""
    block = tables.TextBlock
    return block.select(block.id, block.text).where(in_json_list(block.id, ids))


@asks_rows(lambda rows: {int(row.id): (str(row.session_id), int(row.turn_id)) for row in rows})
def passage_turns(ids: Sequence[int]) -> Query:
    """Return row id → id of the session and row id of the turn, for the passages that exist."""
    passage, turn, session = tables.Passage, tables.Turn, tables.Session
    query = passage.select(passage.id, session.session_id, passage.turn_id)
    query = query.join(turn, on=turn.id == passage.turn_id).join(session, on=session.id == turn.session)
    return query.where(in_json_list(passage.id, ids))


@asks_rows(lambda rows: [tuple(row) for row in rows])
def passage_spots(ids: Sequence[int], project_id: int | None = None) -> Query:
    """Return ``(row id, session, turn, text block)`` of existing passages, by row id, limited to a project if given."""
    passage = tables.Passage
    query = passage.select(passage.id, passage.session_ref, passage.turn_id, passage.text_block)
    is_seen = is_same(passage.project_id, fn.COALESCE(project_id, passage.project_id))
    return query.where(in_json_list(passage.id, ids) & is_seen).order_by(passage.id)


@asks_rows(lambda rows: [(int(row.memory), int(row.passage), bool(row.is_source)) for row in rows])
def passages_of_evidence(episode_ids: Sequence[int]) -> Query:
    """Return ``(row id of a memory, row id of a passage, True if the memory rests on the passage's entry)``.

    The passages are all those of the turns that the memories rest on.
    """
    evidence, passage, block = tables.Evidence, tables.Passage, tables.TextBlock
    query = evidence.select(
        evidence.memory.alias("memory"),
        passage.id.alias("passage"),
        fn.MAX(fn.COALESCE(block.uuid == evidence.uuid, 0)).alias("is_source"),
    )
    query = query.join(passage, on=passage.turn_id == evidence.turn_id).join(block, on=passage.text_block == block.id)
    return query.where(in_json_list(evidence.memory, episode_ids)).group_by(evidence.memory, passage.id)


def passages_between(
    store: Reader, start_ms: int, stop_ms: int, *, project_id: int | None = None, limit: int = 400
) -> list[int]:
    """Return the row ids of at most ``limit`` passages from turns that began in a time span, spread evenly over it."""
    turn, passage = tables.Turn, tables.Passage
    query = turn.select(passage.id).join(passage, on=passage.turn_id == turn.id)
    query = query.where((turn.started_at_ms >= start_ms) & (turn.started_at_ms < stop_ms))
    if project_id is not None:
        query = query.where(turn.project == project_id)
    ids = store.fetch_values(query.order_by(passage.id).limit(MAX_PASSAGES_BETWEEN))
    return ids[:: max(1, -(-len(ids) // limit))]


@dataclass(frozen=True, slots=True)
class LaterText:
    """A text that follows a passage in its session."""

    role: str
    text: str
    at_ms: int


def said_after(store: Reader, row_id: int, limit: int) -> list[LaterText]:
    """Return the beginning of each text that follows a passage in its session, in order."""
    place = store.fetch_first(_moment_of(row_id))
    if place is None:
        return []
    rows = store.fetch(_texts_after(place.session_ref, place.at_ms, place.said_id, limit))
    return [LaterText(row.role, row.text, row.at_ms) for row in rows]


@asks_rows(lambda rows: [str(row.text) for row in rows])
def said_by_user(row_id: int) -> Query:
    """Return the beginning of each of the user's texts in the turn of a passage, in order."""
    passage, block = tables.Passage, tables.TextBlock
    turn_of_passage = passage.select(passage.turn_id).where(passage.id == row_id)
    query = block.select(fn.SUBSTR(block.text, 1, MAX_PROMPT_CHARACTERS).alias("text"))
    return query.where((block.turn == turn_of_passage) & (block.role == Role.USER.value)).order_by(block.seq)


def _said_at_ms() -> Any:
    return fn.COALESCE(tables.TextBlock.at_ms, tables.Turn.started_at_ms, 0)


@prepared
def _moment_of(row_id: int) -> Query:
    passage, turn = tables.Passage, tables.Turn
    query = passage.select(passage.session_ref, passage.text_block, _said_at_ms().alias("at_ms"))
    query = query.join(tables.TextBlock).join_from(passage, turn, on=turn.id == passage.turn_id)
    return query.where(passage.id == row_id)


@prepared
def _texts_after(session_ref: int, at_ms: int, said_id: int, limit: int) -> Query:
    block, turn, said_at_ms = tables.TextBlock, tables.Turn, _said_at_ms()
    is_later = (said_at_ms > at_ms) | ((said_at_ms == at_ms) & (block.id > said_id))
    text = fn.SUBSTR(block.text, 1, MAX_LATER_CHARACTERS).alias("text")
    query = block.select(block.role, text, said_at_ms.alias("at_ms")).join(turn)
    query = query.where((turn.session == session_ref) & is_later)
    return query.order_by(said_at_ms, block.id).limit(limit)


def normalised_text(text: str) -> str:
    """Return a text normalised for comparison: case folded, and with whitespace collapsed."""
    return " ".join(text.split()).casefold()


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


@asks_keyed(_PASSAGES, "id")
def passage_rows(ids: Sequence[int]) -> Query:
    """Return row id → passage, for those that exist."""
    passage, block, turn = tables.Passage, tables.TextBlock, tables.Turn
    query = _PASSAGES.select().join(block).join_from(passage, turn, on=turn.id == passage.turn_id)
    return query.where(in_json_list(passage.id, ids))


# -- The location of an entry: its session, file and line.


@dataclass(frozen=True, slots=True)
class EvidencePlace:
    session_id: str
    uuid: str
    path: str
    #: Line number from 1; 0 if the source has no lines, or if unknown.
    line: int
    #: The session's key within a file that contains several; "" if the file is one session.
    part: str = ""
    #: Position in the source, in the agent's unit: bytes in a line-based file.
    position: int = 0

    @classmethod
    def unread(cls, uuid: str) -> EvidencePlace:
        """Return the location of an entry that is unknown, or known only by its UUID."""
        return cls(session_id="", uuid=uuid, path="", line=0)

    @property
    def text(self) -> str:
        """The location in human-readable form: path and line, or path, part and position if there are no lines."""
        if self.line:
            return f"{self.path}:{self.line}"
        return f"{self.path} {self.part} at {self.position}" if self.part else f"{self.path} at {self.position}"

    def to_json(self) -> dict[str, Any]:
        """Return the location as it appears under ``evidence`` in every command's JSON."""
        return {
            "session": self.session_id,
            "uuid": self.uuid,
            "path": self.path,
            "part": self.part,
            "position": self.position,
            "line": self.line or None,
        }


def places_of(store: Reader, uuids: Iterable[str]) -> list[EvidencePlace]:
    """Return the location of each entry, in the given order. Unknown entries have no file."""
    asked = list(uuids)
    rows = store.fetch(_turns_of_keys([entry_key(uuid) for uuid in asked])) if asked else []
    turns = {row.id: row for row in rows}
    places = {place.uuid: place for row in turns.values() for place in _places_in(row, frozenset(asked))}
    return [places.get(uuid, EvidencePlace.unread(uuid)) for uuid in asked]


def _places_in(turn: Any, uuids: Set[str]) -> Iterator[EvidencePlace]:
    """Yield the locations of the given entries that belong to a turn."""
    for entry in unpack_entries(bytes(turn.entries)):
        if entry.uuid in uuids:
            yield EvidencePlace(
                session_id=turn.session_id,
                uuid=entry.uuid,
                path=os.fsdecode(bytes(turn.path)),
                line=entry.line,
                part=turn.part,
                position=entry.offset,
            )


@prepared
def _turns_of_keys(keys: Sequence[int]) -> Query:
    entry, turn = tables.Entry, tables.Turn
    columns = (turn.id, tables.Session.session_id, tables.Transcript.path, tables.Transcript.part, turn.entries)
    query = entry.select(*columns).join(turn, on=turn.id == entry.turn_id).join(tables.Session)
    return query.join_from(turn, tables.Transcript).where(in_json_list(entry.key, keys))
