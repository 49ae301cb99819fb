"""Full-text search with FTS5: every term quoted, so that no text of a user is ever syntax."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from engram.models.conditions import IS_GLOBAL, IS_OF_PROJECT
from engram.models.episode_index import rebuild_episode_index
from engram.models.store import Store
from engram.models.transaction import Reader, Value

_WORD = re.compile(r"\w+", re.UNICODE)
#: What a row is to hold: a word, or several words all of which it must hold.
Term: TypeAlias = str | tuple[str, ...]
#: Rows of one term that are counted; how many there are beyond is told by how soon these came.
COUNTED_ROWS = 20_000
#: Terms counted in one statement.
_COUNTED_AT_ONCE = 50


def match_expression(terms: Sequence[Term]) -> str:
    """An FTS5 expression that matches any of the terms; "" where none has a letter or digit."""
    found = (_quoted(term) if isinstance(term, str) else _all_of(term) for term in terms)
    return " OR ".join(dict.fromkeys(one for one in found if one))


def _quoted(term: str) -> str:
    words = _WORD.findall(term)
    return f'"{" ".join(words)}"' if words else ""


def _all_of(terms: tuple[str, ...]) -> str:
    quoted = [one for one in map(_quoted, terms) if one]
    return f"({' AND '.join(quoted)})" if quoted else ""


def search_passages(
    store: Reader, terms: Sequence[Term], limit: int, *, project_id: int | None = None,
    weights: tuple[float, float, float] = (1.0, 0.6, 0.3),
) -> list[tuple[int, float]]:  # fmt: skip
    """``(passage id, BM25)`` of the best passages, higher is better; of one project where it is named."""
    expression = match_expression(terms)
    if not expression:
        return []
    condition = ""
    parameters: list[Value] = [*weights, expression]
    if project_id is not None:
        condition, parameters = "AND p.project_id = ?", [*parameters, project_id]
    rows = store.rows(
        f"SELECT f.rowid, -bm25(passage_fts, ?, ?, ?) AS score FROM passage_fts f "
        f"{'JOIN passage p ON p.id = f.rowid' if project_id is not None else ''} "
        f"WHERE passage_fts MATCH ? {condition} ORDER BY score DESC LIMIT ?",
        [*parameters, limit],
    )
    return [(int(row[0]), float(row[1])) for row in rows]


def search_episodes(
    store: Reader, terms: Sequence[Term], limit: int, *, weights: tuple[float, float, float] = (1.0, 0.4, 0.8),
    project_id: int | None = None, with_global: bool = True,
) -> list[tuple[int, float]]:  # fmt: skip
    """``(episode row id, BM25)`` of the best episodes, higher is better; of all projects unless one is named."""
    if project_id is None:
        return _search(store, "episode_fts", terms, limit, weights)
    expression = match_expression(terms)
    if not expression:
        return []
    seen = f"({IS_OF_PROJECT} AND e.project_id = ?)" + (f" OR {IS_GLOBAL}" if with_global else "")
    # Ranked first: rows of memories are long, and only those up to the last hit are looked at. The LIMIT keeps the order.
    rows = store.rows(
        "SELECT f.id, f.score FROM (SELECT rowid AS id, -bm25(episode_fts, ?, ?, ?) AS score FROM episode_fts "
        "WHERE episode_fts MATCH ? ORDER BY score DESC LIMIT -1) f CROSS JOIN episode e ON e.id = f.id "
        f"WHERE {seen} LIMIT ?",
        (*weights, expression, project_id, limit),
    )
    return [(int(row[0]), float(row[1])) for row in rows]


def search_notes(
    store: Reader,
    terms: Sequence[Term],
    limit: int,
    *,
    weights: tuple[float, float] = (0.6, 1.0),
    project_id: int | None = None,
) -> list[tuple[int, float]]:
    """``(note chunk id, BM25)`` of the best chunks, higher is better; those that a project may see where one is named."""
    if project_id is None:
        return _search(store, "note_fts", terms, limit, weights)
    expression = match_expression(terms)
    if not expression:
        return []
    rows = store.rows(
        "SELECT f.rowid, -bm25(note_fts, ?, ?) AS score FROM note_fts f JOIN note_chunk_project o ON o.id = f.rowid "
        "WHERE note_fts MATCH ? AND (o.project_id IS NULL OR o.project_id = ?) ORDER BY score DESC LIMIT ?",
        (*weights, expression, project_id, limit),
    )
    return [(int(row[0]), float(row[1])) for row in rows]


def _search(
    store: Reader, table: str, terms: Sequence[Term], limit: int, weights: Sequence[float]
) -> list[tuple[int, float]]:
    expression = match_expression(terms)
    if not expression:
        return []
    marks = ", ".join("?" * len(weights))
    parameters: list[Value] = [*weights, expression, limit]
    rows = store.rows(
        f"SELECT rowid, -bm25({table}, {marks}) AS score FROM {table} WHERE {table} MATCH ? ORDER BY score DESC LIMIT ?",
        parameters,
    )
    return [(int(row[0]), float(row[1])) for row in rows]


def document_counts(store: Reader, table: str, terms: Sequence[str], total: int) -> dict[str, int]:
    """How many of the ``total`` rows of an index (passage_fts, episode_fts, note_fts) hold each term.

    Stemmed as the index does. Exact up to ``COUNTED_ROWS``, about right beyond.
    """
    asked = [(term, expression) for term in terms if (expression := match_expression([term]))]
    if not asked or not total:
        return {term: 0 for term, _ in asked}
    one = f"SELECT count(*), max(rowid) FROM (SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT {COUNTED_ROWS})"
    counts = {}
    for start in range(0, len(asked), _COUNTED_AT_ONCE):
        some = asked[start : start + _COUNTED_AT_ONCE]
        rows = store.rows(" UNION ALL ".join([one] * len(some)), [expression for _, expression in some])
        for (term, _), (seen, last) in zip(some, rows, strict=True):
            counts[term] = seen if seen < COUNTED_ROWS else min(total, round(seen * max(total, last) / last))
    return counts


def rebuild_indexes(store: Store) -> None:
    """Make the three text indexes anew from the rows they stand for. Raises StoreError."""
    for table in ("passage_fts", "note_fts"):
        with store.transaction() as tx:
            tx.run(f"INSERT INTO {table}({table}) VALUES ('rebuild')")
    with store.transaction() as tx:
        rebuild_episode_index(tx)
