"""Read passages of turns: as candidates and hits, and as quotations, which have ids ``q_…`` and can be judged.

An id is ``q_``, twelve hexadecimal digits of the key of the quoted entry, and the position of the passage's first
character in the entry, also in hexadecimal. It remains valid whatever row ids turns and passages get. No table lists
quotations: if a text is later split differently, the id refers to the passage that contains its position. Judgements
are stored in the history, like those on memories.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from peewee import JOIN, Query, fn

from engram.enums import Actor, Judgement
from engram.errors import NotFound
from engram.models import tables
from engram.models.engine.statement import (
    RecordReader,
    entry_key,
    in_json_list,
    is_same,
    prepared,
    unpack_entries,
    unpack_uuid,
)
from engram.models.engine.transaction import Reader, Tx, asks_keyed, asks_rows, asks_values
from engram.models.memories.judgements import judgement_of, standing_judgements
from engram.models.memories.memory_history import add_history, drop_history, history_of
from engram.models.sessions.stored_turns import StoredTurn, load_turn_row
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.turns import Opening, Role

#: Numbers of bits of an entry's key that an id leaves out (the lowest ones) and that it contains.
_CUT_BITS, _KEPT_BITS = 16, 48
#: The prefix of every id, and an upper bound. All ids sort between these two, because their digits are hexadecimal.
PREFIX, AFTER_PREFIX = "q_", "q_g"
#: Number of leading characters that the ids of all quotations of an entry have in common.
ENTRY_CHARACTERS = len(PREFIX) + _KEPT_BITS // 4
_QUOTATION = lazy_regex(r"q_([0-9a-f]{12})([0-9a-f]{1,6})")


def quotation_id_of(source: str, position: int) -> str:
    """Return the id of the passage that begins at a character of an entry.

    Args:
        source: id of the entry, or the key of its turn for a queued prompt, which has no id.
        position: in characters; the text blocks of an entry count as one text, with one character between them.
    """
    return f"{quotation_prefix(source)}{position:x}"


def quotation_prefix(source: str) -> str:
    return f"{PREFIX}{cut_key(source):012x}"


def is_quotation_id(text: str) -> bool:
    return _QUOTATION.fullmatch(text) is not None


@lru_cache(maxsize=2048)
def cut_key(source: str) -> int:
    """Return the part of an entry's key that ids of quotations contain."""
    return (entry_key(source) >> _CUT_BITS) & ((1 << _KEPT_BITS) - 1)


def _turns_of_cut_keys(store: Reader, digits: str) -> list[int]:
    """Return the row ids of the turns with an entry whose cut key begins with 1 to 12 hexadecimal digits."""
    free_bits = _KEPT_BITS - 4 * len(digits)
    first = int(digits, 16) << free_bits
    signed = first - (1 << _KEPT_BITS) if first >> (_KEPT_BITS - 1) else first
    last = signed + (1 << free_bits) - 1
    entry = tables.Entry
    between = entry.key.between(signed << _CUT_BITS, ((last + 1) << _CUT_BITS) - 1)
    query = entry.select(entry.turn_id).distinct().where(between)
    return [int(turn_id) for turn_id in store.fetch_values(query.order_by(entry.turn_id))]


# -- Passages.

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


def said_after(store: Reader, row_id: int, limit: int) -> list[LaterText]:
    """Return the beginning of each text that follows a passage in its session, in order."""
    place = store.fetch_first(_moment_of(row_id))
    if place is None:
        return []
    return _texts_after(store, place.session_ref, place.at_ms, place.said_id, limit)


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


@asks_rows(lambda rows: [LaterText(row.role, row.text) for row in rows])
def _texts_after(session_ref: int, at_ms: int, said_id: int, limit: int) -> Query:
    block, turn, said_at_ms = tables.TextBlock, tables.Turn, _said_at_ms()
    is_later = (said_at_ms > at_ms) | ((said_at_ms == at_ms) & (block.id > said_id))
    text = fn.SUBSTR(block.text, 1, MAX_LATER_CHARACTERS).alias("text")
    query = block.select(block.role, text).join(turn)
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
    wanted = frozenset(asked)
    rows = store.fetch(_turns_of_keys([entry_key(uuid) for uuid in asked])) if asked else []
    places = {
        entry.uuid: EvidencePlace(
            session_id=turn.session_id,
            uuid=entry.uuid,
            path=os.fsdecode(bytes(turn.path)),
            line=entry.line,
            part=turn.part,
            position=entry.offset,
        )
        for turn in {row.id: row for row in rows}.values()
        for entry in unpack_entries(bytes(turn.entries))
        if entry.uuid in wanted
    }
    return [places.get(uuid, EvidencePlace.unread(uuid)) for uuid in asked]


@prepared
def _turns_of_keys(keys: Sequence[int]) -> Query:
    entry, turn = tables.Entry, tables.Turn
    columns = (turn.id, tables.Session.session_id, tables.Transcript.path, tables.Transcript.part, turn.entries)
    query = entry.select(*columns).join(turn, on=turn.id == entry.turn_id).join(tables.Session)
    return query.join_from(turn, tables.Transcript).where(in_json_list(entry.key, keys))


# -- Quotations: passages that have an id and can be judged.


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
    match = _QUOTATION.fullmatch(quotation_id)
    if match is None:
        return None
    key, position = int(match[1], 16), int(match[2], 16)
    # A queued prompt has no entry, so it is identified by the key of its turn.
    turn = tables.Turn
    queued = turn.select(turn.id, turn.key).where(turn.opening == Opening.QUEUED.value)
    turn_ids = _turns_of_cut_keys(store, f"{key:012x}") or [
        row.id for row in store.fetch(queued) if cut_key(row.key) == key
    ]
    for stored, source, row, start in _texts_of(store, turn_ids):
        if cut_key(source) == key and start <= position < start + row.length:
            return _passage_at(store, quotation_id, stored, source, row.id, position - start)
    return None


def quotations_beginning_with(store: Reader, beginning: str, limit: int) -> list[Quotation]:
    """Return at most ``limit`` quotations with ids that begin with ``q_`` and the given 1 to 12 hexadecimal digits.

    Queued prompts, which have no entry of their own, can be found only by their complete ids.
    """
    quotations: list[Quotation] = []
    passage = tables.Passage
    for stored, source, row, offset in _texts_of(store, _turns_of_cut_keys(store, beginning.removeprefix(PREFIX))):
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


def _texts_of(store: Reader, turn_ids: Iterable[int]) -> Iterator[tuple[StoredTurn, str, Any, int]]:
    """Yield (turn, source, row, offset) for each text block of turns.

    The source is the entry's id, or the turn's key; the offset is that of the text in the source, in characters.
    """
    for turn_id in turn_ids:
        stored = load_turn_row(store, turn_id)
        if stored is None:
            continue
        before: dict[str, int] = {}
        for row in store.fetch(_blocks_of(turn_id)):
            source = unpack_uuid(row.uuid) or stored.turn.key
            start = before.get(source, 0)
            before[source] = start + row.length + 1
            yield stored, source, row, start


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
    row = next(iter(passage_rows(store, _passage_before(store, said_id, position)).values()), None)
    if row is None:
        return None
    return Quotation(quotation_id, stored, row.id, source, Role(row.role), row.text, row.at_ms)


def note_quotation_judgement(tx: Tx, quotation_id: str, action: str, reason: str, *, actor: Actor) -> None:
    """Add a judgement on a quotation, or the withdrawal of one, to its history."""
    add_history(tx, quotation_id, action, reason, {}, {}, actor=actor)


def judged_quotations(store: Reader) -> dict[str, Judgement]:
    standing = {name: standing_judgements(history_of(store, name)) for name in _judged_ids(store)}
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


@asks_values
def _passage_before(said_id: int, position: int) -> Query:
    passage = tables.Passage
    query = passage.select(passage.id).where((passage.text_block == said_id) & (passage.start <= position))
    return query.order_by(passage.start.desc()).limit(1)


@asks_values
def _judged_ids() -> Query:
    history = tables.History
    return history.select(history.episode_id).distinct().where(history.episode_id.between(PREFIX, AFTER_PREFIX))
