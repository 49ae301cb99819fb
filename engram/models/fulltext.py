"""Full-text search with FTS5: every term quoted, so that no text of a user is ever syntax."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engram.models.store import Store, Value

_WORD = re.compile(r"\w+", re.UNICODE)


def match_expression(terms: Sequence[str]) -> str:
    """An FTS5 expression that matches any of the terms; "" where none has a letter or digit."""
    quoted = ['"' + " ".join(_WORD.findall(term)) + '"' for term in terms if _WORD.search(term)]
    return " OR ".join(dict.fromkeys(quoted))


def search_passages(
    store: Store, terms: Sequence[str], limit: int, *, project_id: int | None = None,
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
    store: Store, terms: Sequence[str], limit: int, *, weights: tuple[float, float, float] = (1.0, 0.4, 0.8),
    project_id: int | None = None, with_global: bool = True,
) -> list[tuple[int, float]]:  # fmt: skip
    """``(episode row id, BM25)`` of the best episodes, higher is better; of all projects unless one is named."""
    if project_id is None:
        return _search(store, "episode_fts", terms, limit, weights)
    expression = match_expression(terms)
    if not expression:
        return []
    seen = "(e.scope <> 'global' AND e.project_id = ?)" + (" OR e.scope = 'global'" if with_global else "")
    rows = store.rows(
        "SELECT f.rowid, -bm25(episode_fts, ?, ?, ?) AS score FROM episode_fts f JOIN episode e ON e.id = f.rowid "
        f"WHERE episode_fts MATCH ? AND ({seen}) ORDER BY score DESC LIMIT ?",
        (*weights, expression, project_id, limit),
    )
    return [(int(row[0]), float(row[1])) for row in rows]


def search_notes(
    store: Store, terms: Sequence[str], limit: int, *, weights: tuple[float, float] = (0.6, 1.0)
) -> list[tuple[int, float]]:
    """``(note chunk id, BM25)`` of the best chunks, higher is better."""
    return _search(store, "note_fts", terms, limit, weights)


def _search(
    store: Store, table: str, terms: Sequence[str], limit: int, weights: Sequence[float]
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


def document_counts(store: Store, table: str, terms: Sequence[str]) -> dict[str, int]:
    """How many rows of an index (passage_fts, episode_fts, note_fts) hold each term; stemmed as the index does."""
    counts = {}
    for term in terms:
        expression = match_expression([term])
        if expression:
            counts[term] = int(store.value(f"SELECT count(*) FROM {table} WHERE {table} MATCH ?", (expression,)) or 0)
    return counts


def rebuild_indexes(store: Store) -> None:
    """Make the three text indexes anew from the rows they stand for. Raises StoreError."""
    for table in ("passage_fts", "episode_fts", "note_fts"):
        with store.writing():
            store.run(f"INSERT INTO {table}({table}) VALUES ('rebuild')")
