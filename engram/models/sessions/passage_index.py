"""Write passages and their text index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peewee import Query, Select, fn

from engram.models import tables
from engram.models.engine.statement import in_json_list, prepared
from engram.models.engine.transaction import Reader, Tx, Value
from engram.models.tables import CONTEXT_CHARS
from engram.text.splitting import split_passages
from engram.text.words import in_pairs
from engram.transcripts.turns import TextBlock

# -- Passages and their text index. A passage is indexed with the words of its neighbours, so adding or deleting one
# requires reindexing its neighbours.


def add_passages(
    tx: Tx, session_ref: int, blocks: Sequence[tuple[int, int, TextBlock]], projects: Mapping[int, int | None]
) -> None:
    """Split new text blocks (turn, row id, text) of a session into passages and index them.

    Args:
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
    """Delete a turn's passages with their vectors and all traces in the text index."""
    _drop(tx, [row.id for row in tx.fetch(_of_turn(turn_id))])


def drop_passages_of_texts(tx: Tx, turn_id: int, said_ids: Sequence[int]) -> None:
    """Delete the passages of some of a turn's text blocks, as ``drop_passages`` does."""
    _drop(tx, [row.id for row in tx.fetch(_of_turn(turn_id)) if row.said_id in set(said_ids)])


def _drop(tx: Tx, ids: Sequence[int]) -> None:
    if not ids:
        return
    neighbours = _neighbours(tx, ids)
    _unindex(tx, [*ids, *neighbours])
    tx.run(_delete_vectors(ids))
    tx.run(_delete(ids))
    _index(tx, neighbours)


def _neighbours(store: Reader, ids: Sequence[int]) -> list[int]:
    """Return the passages directly before and after the given ones, which are indexed with words of theirs."""
    session_ref = store.fetch_value(_session_of(ids[0]))
    neighbours = set()
    for row_id in ids:
        row = store.fetch_first(_beside(session_ref, row_id))
        neighbours |= {row.before, row.after}
    return sorted(neighbours - {None, *ids})


# -- The text index, in raw SQL, because its commands are columns with the same name as the table, which peewee can't
# express.


_INSERT = "INSERT INTO passage_fts(rowid, own, before, after) VALUES (?, ?, ?, ?)"


def _index_new(tx: Tx, ids: Sequence[int], texts: Sequence[str], before: str) -> None:
    """Index consecutive new passages of a session, with the words of ``passage_context`` but without querying it."""
    neighbours = zip(ids, texts, [before, *texts], [*texts[1:], ""], strict=False)
    tx.run_many(
        _INSERT,
        [
            (row_id, in_pairs(own), in_pairs(left[-CONTEXT_CHARS:]), in_pairs(right[:CONTEXT_CHARS]))
            for row_id, own, left, right in neighbours
        ],
    )


def _index(tx: Tx, ids: Sequence[int]) -> None:
    tx.run_many(_INSERT, _words(tx, ids))


def _unindex(tx: Tx, ids: Sequence[int]) -> None:
    """Remove rows from the index.

    The passages and their neighbours must still be in the state in which they were indexed.
    """
    tx.run_many(
        "INSERT INTO passage_fts(passage_fts, rowid, own, before, after) VALUES ('delete', ?, ?, ?, ?)", _words(tx, ids)
    )


def _words(store: Reader, ids: Sequence[int]) -> list[tuple[Value, ...]]:
    """Return the rows of ``passage_context`` for a few passages, faster than by querying it."""
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
def _delete(ids: Sequence[int]) -> Query:
    return tables.Passage.delete().where(in_json_list(tables.Passage.id, ids))


@prepared
def _delete_vectors(ids: Sequence[int]) -> Query:
    vector = tables.Vector
    return vector.delete().where((vector.owner == "p") & in_json_list(vector.owner_id, ids))
