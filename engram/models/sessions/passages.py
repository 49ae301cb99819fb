"""Passages with their text index, and where each entry is in its file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from peewee import Query, Select, fn

from engram.models import tables
from engram.models.engine.packed import entry_key, unpack_entries
from engram.models.engine.statement import in_json_list, prepared
from engram.models.engine.transaction import Reader, Tx, Value
from engram.models.tables import CONTEXT_CHARS
from engram.text.splitting import split_passages
from engram.text.words import in_pairs
from engram.transcripts.turns import TextBlock

# -- Passages and their text index. A passage's neighbours are indexed with it, so they are indexed anew when it
# changes.


def add_passages(
    tx: Tx, session_ref: int, blocks: Sequence[tuple[int, int, TextBlock]], projects: Mapping[int, int | None]
) -> None:
    """Split new texts (turn, row id, text) of a session into passages and index them.

    Args:
        tx: the transaction.
        session_ref: row id of the session.
        blocks: in the order of the transcript.
        projects: row id of a turn → row id of its project.
    """
    rows: list[dict[str, Value]] = []
    texts: list[str] = []
    for turn_id, row_id, block in blocks:
        for start, stop in split_passages(block.text):
            rows.append(
                {
                    "said_id": row_id,
                    "turn_id": turn_id,
                    "session_ref": session_ref,
                    "project_id": projects[turn_id],
                    "role": block.role.value,
                    "start": start,
                    "stop": stop,
                }
            )
            texts.append(block.text[start:stop])
    if not rows:
        return
    last = int(tx.fetch_value(_last_of_session(session_ref)) or 0)
    if last:
        _unindex(tx, [last])
    tx.insert_many(tables.Passage, rows)
    new = tx.fetch_values(_after(session_ref, last))
    before = ""
    if last:
        _index(tx, [last])
        before = str(tx.fetch_value(_text_of(last)) or "")
    _index_new(tx, new, texts, before)


def drop_passages(tx: Tx, turn_id: int) -> None:
    """Remove a turn's passages, their vectors and every trace in the text index."""
    _drop(tx, [row.id for row in tx.fetch(_of_turn(turn_id))])


def drop_passages_of_texts(tx: Tx, turn_id: int, said_ids: Sequence[int]) -> None:
    """Remove the passages of some texts of a turn as ``drop_passages`` does."""
    _drop(tx, [row.id for row in tx.fetch(_of_turn(turn_id)) if row.said_id in set(said_ids)])


def _drop(tx: Tx, ids: Sequence[int]) -> None:
    if not ids:
        return
    neighbours = _neighbours(tx, ids)
    _unindex(tx, [*ids, *neighbours])
    dropped = json.dumps(list(ids))
    tx.run(_delete_vectors(dropped))
    tx.run(_delete(dropped))
    _index(tx, neighbours)


def _neighbours(store: Reader, ids: Sequence[int]) -> list[int]:
    """Passages of the same session right before and after those given, which hold their text as context."""
    session_ref = store.fetch_value(_session_of(ids[0]))
    neighbours = set()
    for row_id in ids:
        row = store.fetch_first(_beside(session_ref, row_id))
        neighbours |= {row.before, row.after}
    return sorted(neighbours - {None, *ids})


# -- the text index, in raw SQL: its commands are columns of the same name as the table, which peewee cannot say, and
# -- ``passage_context`` is read within SQLite


_INSERT = "INSERT INTO passage_fts(rowid, own, before, after) VALUES (?, ?, ?, ?)"


def _index_new(tx: Tx, ids: Sequence[int], texts: Sequence[str], before: str) -> None:
    """Index new passages of a session that follow each other: the words of ``passage_context``, without asking it."""
    neighbours = zip(ids, texts, [before, *texts], [*texts[1:], ""], strict=False)
    tx.run_many(
        _INSERT,
        [
            (row_id, in_pairs(own), in_pairs(left[-CONTEXT_CHARS:]), in_pairs(right[:CONTEXT_CHARS]))
            for row_id, own, left, right in neighbours
        ],
    )


def _index(tx: Tx, ids: Sequence[int]) -> None:
    """Index passages as they are now."""
    tx.run_many(_INSERT, _words(tx, ids))


def _unindex(tx: Tx, ids: Sequence[int]) -> None:
    """Take rows out of the index; needs the passages and their neighbours as they were when indexed."""
    tx.run_many(
        "INSERT INTO passage_fts(passage_fts, rowid, own, before, after) VALUES ('delete', ?, ?, ?, ?)", _words(tx, ids)
    )


def _words(store: Reader, ids: Sequence[int]) -> list[tuple[Value, ...]]:
    """The rows of ``passage_context``, of few passages."""
    rows = (
        row
        for row_id in ids
        for row in store.rows("SELECT id, own, before, after FROM passage_beside WHERE id = ?", (row_id,))
    )
    return [(row_id, in_pairs(own), in_pairs(before), in_pairs(after)) for row_id, own, before, after in rows]


# -- queries


@prepared
def _last_of_session(session_ref: int) -> Query:
    return tables.Passage.select(fn.MAX(tables.Passage.id)).where(tables.Passage.session_ref == session_ref)


@prepared
def _after(session_ref: int, row_id: int) -> Query:
    passage = tables.Passage
    query = passage.select(passage.id).where((passage.session_ref == session_ref) & (passage.id > row_id))
    return query.order_by(passage.id)


@prepared
def _text_of(row_id: int) -> Query:
    return tables.PassageText.select(tables.PassageText.text).where(tables.PassageText.id == row_id)


@prepared
def _of_turn(turn_id: int) -> Query:
    passage = tables.Passage
    return passage.select(passage.id, passage.text_block).where(passage.turn_id == turn_id).order_by(passage.id)


@prepared
def _session_of(row_id: int) -> Query:
    return tables.Passage.select(tables.Passage.session_ref).where(tables.Passage.id == row_id)


@prepared
def _beside(session_ref: int, row_id: int) -> Query:
    passage = tables.Passage
    of_session = passage.session_ref == session_ref
    before = passage.select(fn.MAX(passage.id)).where(of_session & (passage.id < row_id))
    after = passage.select(fn.MIN(passage.id)).where(of_session & (passage.id > row_id))
    return Select(columns=[before.alias("before"), after.alias("after")])


@prepared
def _delete(ids: str) -> Query:
    return tables.Passage.delete().where(in_json_list(tables.Passage.id, ids))


@prepared
def _delete_vectors(ids: str) -> Query:
    vector = tables.Vector
    return vector.delete().where((vector.owner == "p") & in_json_list(vector.owner_id, ids))


# -- Where an entry stands: its session, its file and its line in it.


@dataclass(frozen=True, slots=True)
class EvidencePlace:
    """Where an entry stands."""

    session_id: str
    uuid: str
    path: str
    #: Line number from 1; 0 if the source has no lines, or if it is not known.
    line: int
    #: The session's key within a file that holds several; "" if the file is one session.
    part: str = ""
    #: Position in the source, in the unit that its agent counts by; bytes in a file of lines.
    position: int = 0

    @property
    def text(self) -> str:
        """The place for people: path and line, or path, part and position if there are no lines."""
        if self.line:
            return f"{self.path}:{self.line}"
        return f"{self.path} {self.part} at {self.position}" if self.part else f"{self.path} at {self.position}"

    def to_json(self) -> dict[str, Any]:
        """The form of ``evidence`` in every command's JSON."""
        return {
            "session": self.session_id,
            "uuid": self.uuid,
            "path": self.path,
            "part": self.part,
            "position": self.position,
            "line": self.line or None,
        }


def places_of(store: Reader, uuids: Iterable[str]) -> list[EvidencePlace]:
    """Session, file and position of entries, in the order asked; unknown ones have no file."""
    asked = list(uuids)
    rows = store.fetch(_turns_of_keys(json.dumps([entry_key(uuid) for uuid in asked]))) if asked else []
    turns = {row.id: row for row in rows}
    places = {place.uuid: place for row in turns.values() for place in _places_in(row, frozenset(asked))}
    return [places.get(uuid, EvidencePlace(session_id="", uuid=uuid, path="", line=0)) for uuid in asked]


def _places_in(turn: Any, uuids: Set[str]) -> Iterator[EvidencePlace]:
    """The places of those entries that lie in a turn."""
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
def _turns_of_keys(keys: str) -> Query:
    entry, turn = tables.Entry, tables.Turn
    columns = (turn.id, tables.Session.session_id, tables.Transcript.path, tables.Transcript.part, turn.entries)
    query = entry.select(*columns).join(turn, on=turn.id == entry.turn_id).join(tables.Session)
    return query.join_from(turn, tables.Transcript).where(in_json_list(entry.key, keys))
