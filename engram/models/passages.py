"""Passages and their text index. A passage's neighbours are indexed with it, so they are indexed anew when it changes."""

from __future__ import annotations

from collections.abc import Sequence

from engram.models.sessions import SessionRow
from engram.models.tables import CONTEXT_CHARS
from engram.models.transaction import Reader, Tx
from engram.text.passages import split_passages
from engram.transcripts.record import TextBlock


def add_passages(tx: Tx, session: SessionRow, said: Sequence[tuple[int, int, TextBlock]]) -> None:
    """Split new texts (turn, row id, text) of a session into passages and index them."""
    rows, texts = [], []
    for turn_id, said_id, one in said:
        for start, stop in split_passages(one.text):
            rows.append((said_id, turn_id, session.id, session.project_id, one.role.value, start, stop))
            texts.append(one.text[start:stop])
    if not rows:
        return
    last = int(tx.value("SELECT max(id) FROM passage WHERE session_ref = ?", (session.id,)) or 0)
    if last:
        _unindex(tx, [last])
    tx.run_many(
        "INSERT INTO passage (said_id, turn_id, session_ref, project_id, role, start, stop) VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    new = tx.rows("SELECT id FROM passage WHERE session_ref = ? AND id > ? ORDER BY id", (session.id, last))
    if last:
        _index(tx, [last])
    before = str(tx.value("SELECT text FROM passage_text WHERE id = ?", (last,)) or "") if last else ""
    # The same words as passage_context gives, without asking it for each row.
    tx.run_many(
        "INSERT INTO passage_fts(rowid, own, before, after) VALUES (?, ?, ?, ?)",
        [
            (row[0], own, left[-CONTEXT_CHARS:], right[:CONTEXT_CHARS])
            for row, own, left, right in zip(new, texts, [before, *texts], [*texts[1:], ""], strict=False)
        ],
    )


def drop_passages(tx: Tx, turn_id: int) -> None:
    """Remove a turn's passages, their vectors and every trace in the text index."""
    rows = tx.rows("SELECT id FROM passage WHERE turn_id = ? ORDER BY id", (turn_id,))
    _drop(tx, [int(row[0]) for row in rows])


def drop_passages_of_texts(tx: Tx, turn_id: int, said_ids: Sequence[int]) -> None:
    """Remove the passages of some texts of a turn as ``drop_passages`` does."""
    rows = tx.rows("SELECT id, said_id FROM passage WHERE turn_id = ? ORDER BY id", (turn_id,))
    _drop(tx, [int(row_id) for row_id, said_id in rows if said_id in set(said_ids)])


def _drop(tx: Tx, ids: Sequence[int]) -> None:
    if not ids:
        return
    beside = _neighbours(tx, ids)
    _unindex(tx, [*ids, *beside])
    tx.run_many("DELETE FROM vector WHERE owner = 'p' AND owner_id = ?", [(one,) for one in ids])
    tx.run_many("DELETE FROM passage WHERE id = ?", [(one,) for one in ids])
    _index(tx, beside)


def _neighbours(store: Reader, ids: Sequence[int]) -> list[int]:
    """Passages of the same session right before and after those given, which hold their text as context."""
    session = store.value("SELECT session_ref FROM passage WHERE id = ?", (ids[0],))
    inside, found = set(ids), set()
    for one in ids:
        for sql in (
            "SELECT max(id) FROM passage WHERE session_ref = ? AND id < ?",
            "SELECT min(id) FROM passage WHERE session_ref = ? AND id > ?",
        ):
            beside = store.value(sql, (session, one))
            if beside is not None and int(beside) not in inside:
                found.add(int(beside))
    return sorted(found)


def _index(tx: Tx, ids: Sequence[int]) -> None:
    tx.run_many(
        "INSERT INTO passage_fts(rowid, own, before, after) SELECT id, own, before, after FROM passage_context WHERE id = ?",
        [(one,) for one in ids],
    )


def _unindex(tx: Tx, ids: Sequence[int]) -> None:
    """Take rows out of the index; needs the passages and their neighbours as they were when indexed."""
    tx.run_many(
        "INSERT INTO passage_fts(passage_fts, rowid, own, before, after) "
        "SELECT 'delete', id, own, before, after FROM passage_context WHERE id = ?",
        [(one,) for one in ids],
    )
