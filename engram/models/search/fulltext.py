"""Full-text search with FTS5, and lightweight rows for its results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeAlias

from peewee import JOIN, SQL, ModelSelect, Query, fn

from engram.enums import Importance, Scope, Status
from engram.models import tables
from engram.models.engine.statement import RecordReader, Statement, in_json_list, prepared
from engram.models.engine.transaction import Reader, Store, asks_keyed, asks_rows
from engram.models.memories.memory_index import rebuild_memory_index
from engram.models.memories.memory_records import GLOBAL_SQL, IS_OF_PROJECT
from engram.system.clock import noon_of
from engram.system.lazy_regex import lazy_regex
from engram.text.words import UNSPACED_LETTERS, asked_in_pairs, in_pairs

# -- Full-text search with FTS5. Every term is quoted, so that the user's text is never treated as syntax.

P = ParamSpec("P")
_WORD = lazy_regex(r"\w+", re.UNICODE)
#: One letter of a script without spaces, or a word in another script.
_WORD_OR_LETTER = lazy_regex(rf"[{UNSPACED_LETTERS}]|[^\W{UNSPACED_LETTERS}]+")
#: A word, or several words that a row must all contain.
Term: TypeAlias = str | tuple[str, ...]
#: Maximum number of rows counted for a term. Beyond that, the total is estimated from the row id at which this number
#: was reached.
COUNTED_ROWS = 20_000
#: Maximum number of words of a phrase to look up, or of letters in an unspaced script; the caller compares the rest.
MAX_PHRASE_WORDS = 8
#: Weights of the columns of a memory: summary, content, and names with questions.
MEMORY_WEIGHTS = (1.0, 0.4, 0.8)
#: Weights of the columns of a note chunk: heading and text.
_NOTE_WEIGHTS = (0.6, 1.0)
#: Maximum number of terms that are counted by one statement.
_COUNTED_AT_ONCE = 50


def match_expression(terms: Sequence[Term]) -> str:
    """Return an FTS5 expression that matches any of the terms; "" if none contains a word."""
    alternatives = (quoted(term) if isinstance(term, str) else _all_of(term) for term in terms)
    return " OR ".join(dict.fromkeys(alternative for alternative in alternatives if alternative))


def quoted(term: str) -> str:
    """Return an FTS5 phrase for a text's words, or "". In unspaced scripts, more letters may follow the phrase."""
    asked, is_beginning = asked_in_pairs(term)
    phrase = _phrase(asked)
    return f"{phrase}*" if phrase and is_beginning else phrase


def _phrase(text: str) -> str:
    words = _WORD.findall(text)
    return f'"{" ".join(words)}"' if words else ""


def _all_of(terms: tuple[str, ...]) -> str:
    phrases = [phrase for phrase in map(quoted, terms) if phrase]
    return f"({' AND '.join(phrases)})" if phrases else ""


def search_passages(
    store: Reader,
    terms: Sequence[Term],
    limit: int,
    *,
    project_id: int | None = None,
    weights: tuple[float, float, float] = (1.0, 0.6, 0.3),
) -> list[tuple[int, float]]:
    """Return ``(passage id, BM25)`` of the best passages, limited to a project if given; higher is better."""
    expression = match_expression(terms)
    return _best_passages(store, expression, weights, limit, project_id) if expression else []


def search_memories(
    store: Reader, terms: Sequence[Term], limit: int, *, project_id: int | None = None
) -> list[tuple[int, float]]:
    """Return ``(memory row id, BM25)`` of the best memories, limited to what a project may see; higher is better."""
    expression = match_expression(terms)
    if not expression:
        return []
    if project_id is None:
        return _memories(store, expression, limit)
    rows = store.fetch(_memories_of_project(expression, project_id, limit))
    return [(row.rowid, row.score) for row in rows]


def search_notes(
    store: Reader, terms: Sequence[Term], limit: int, *, project_id: int | None = None
) -> list[tuple[int, float]]:
    """Return ``(note chunk id, BM25)`` of the best chunks, limited to what a project may see; higher is better."""
    expression = match_expression(terms)
    return _best_notes(store, expression, limit, project_id) if expression else []


def passages_with_phrase(store: Reader, phrase: str, limit: int, *, project_id: int | None = None) -> list[int]:
    """Return the row ids of at most ``limit`` passages in which a phrase begins, best first, of a project if given.

    Words are stemmed and punctuation is ignored, so the caller compares the text. A phrase may continue in the next
    passage, as far as that is indexed with this one.
    """
    words = list(_WORD_OR_LETTER.finditer(phrase))[:MAX_PHRASE_WORDS]
    looked_up = phrase[: words[-1].end()] if words else ""
    if not quoted(looked_up):
        return []
    parts = [(_phrase(in_pairs(phrase[: word.start()])), quoted(looked_up[word.start() :])) for word in words[1:]]
    expression = " OR ".join(
        [f"own : {quoted(looked_up)}"] + [f"(own : {own} AND after : {after})" for own, after in parts if own and after]
    )
    return [row_id for row_id, _ in _best_passages(store, expression, (1.0, 0.0, 0.0), limit, project_id)]


def has_all_words(store: Reader, words: Sequence[str], *, project_id: int | None = None) -> bool:
    """Return True if a single passage or note chunk contains the stems of all words, or if there are no words."""
    together = _all_of(tuple(words))
    if not together:
        return True
    found = _best_passages(store, f"own : {together}", (1.0, 0.0, 0.0), 1, project_id)
    return bool(found or _best_notes(store, together, 1, project_id))


def _best_passages(
    store: Reader, expression: str, weights: tuple[float, float, float], limit: int, project_id: int | None
) -> list[tuple[int, float]]:
    if project_id is None:
        return _passages(store, expression, *weights, limit)
    return _passages_of_project(store, expression, project_id, *weights, limit)


def _best_notes(store: Reader, expression: str, limit: int, project_id: int | None) -> list[tuple[int, float]]:
    """Return the best note chunks for an expression, limited to what a project may see if given."""
    if project_id is None:
        return _notes(store, expression, limit)
    return _notes_of_project(store, expression, project_id, limit)


def document_counts(store: Reader, table: str, terms: Sequence[str], total: int) -> dict[str, int]:
    """Return how many of the ``total`` rows of an index (passage_fts, episode_fts, note_fts) contain each term.

    Terms are stemmed as in the index. Counts are exact up to ``COUNTED_ROWS``, and estimated above that.
    """
    asked = [(term, expression) for term in terms if (expression := match_expression([term]))]
    if not asked or not total:
        return {term: 0 for term, _ in asked}
    counts = {}
    for start in range(0, len(asked), _COUNTED_AT_ONCE):
        some = asked[start : start + _COUNTED_AT_ONCE]
        rows = store.fetch(_first_matches(table, [expression for _, expression in some]))
        for (term, _), row in zip(some, rows, strict=True):
            is_all = row.seen < COUNTED_ROWS
            counts[term] = row.seen if is_all else min(total, round(row.seen * max(total, row.last) / row.last))
    return counts


def rebuild_indexes(store: Store) -> None:
    """Rebuild the three text indexes from the rows that they index. Raises StoreError.

    This uses raw SQL, because a command to FTS5 is a column with the same name as the table, which peewee can't
    express.
    """
    for table in ("passage_fts", "note_fts"):
        with store.transaction() as tx:
            tx.run(f"INSERT INTO {table}({table}) VALUES ('rebuild')")
    with store.transaction() as tx:
        rebuild_memory_index(tx)


# -- queries


def _asks_scores(build: Callable[P, Query]) -> Callable[Concatenate[Reader, P], list[tuple[int, float]]]:
    """Make a function that builds a query for the best rows of a text index run it and return ``(row id, BM25)``."""
    return asks_rows(lambda rows: [(row.rowid, row.score) for row in rows])(build)


def _ranked(index: Any, expression: str, weights: Sequence[Any], limit: int) -> ModelSelect[Any]:
    """Return a query for the best rows of a text index with their BM25; higher is better."""
    score = fn.BM25(index._meta.entity, *weights) * -1
    query: ModelSelect[Any] = index.select(index.rowid, score.alias("score")).where(index.match(expression))
    return query.order_by(SQL("score").desc()).limit(limit)


@_asks_scores
def _passages(expression: str, own: float, before: float, after: float, limit: int) -> Query:
    return _ranked(tables.PassageIndex, expression, (own, before, after), limit)


@_asks_scores
def _passages_of_project(
    expression: str, project_id: int, own: float, before: float, after: float, limit: int
) -> Query:
    index, passage = tables.PassageIndex, tables.Passage
    query = _ranked(index, expression, (own, before, after), limit)
    return query.join(passage, on=passage.id == index.rowid).where(passage.project_id == project_id)


@_asks_scores
def _memories(expression: str, limit: int) -> Query:
    return _ranked(tables.MemoryIndex, expression, MEMORY_WEIGHTS, limit)


@_asks_scores
def _notes(expression: str, limit: int) -> Query:
    return _ranked(tables.NoteIndex, expression, _NOTE_WEIGHTS, limit)


@_asks_scores
def _notes_of_project(expression: str, project_id: int, limit: int) -> Query:
    index, owner = tables.NoteIndex, tables.NoteChunkProject
    query = _ranked(index, expression, _NOTE_WEIGHTS, limit).join(owner, on=owner.id == index.rowid)
    return query.where(owner.project.is_null() | (owner.project == project_id))


# -- raw SQL


def _memories_of_project(expression: str, project_id: int, limit: int) -> Statement:
    """Return the statement for the best memories that a project may see.

    Rows of memories are long, and only those up to the last hit should be read. In the raw SQL, CROSS JOIN makes SQLite
    rank first, and the LIMIT of the inner query keeps the order; peewee can't express either.
    """
    sql = (
        "SELECT f.id AS rowid, f.score FROM (SELECT rowid AS id, -bm25(episode_fts, ?, ?, ?) AS score FROM episode_fts "
        "WHERE episode_fts MATCH ? ORDER BY score DESC LIMIT -1) f CROSS JOIN episode e ON e.id = f.id "
        f"WHERE ({IS_OF_PROJECT} AND e.project_id = ?) OR {GLOBAL_SQL} LIMIT ?"
    )
    return Statement(sql, (*MEMORY_WEIGHTS, expression, project_id, limit))


def _first_matches(table: str, expressions: Sequence[str]) -> Statement:
    """Return the statement that counts the matches of each expression, up to ``COUNTED_ROWS``, with the last row id.

    It has one part per expression, in the same order.
    """
    matches = f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT {COUNTED_ROWS}"
    part = f"SELECT count(*) AS seen, max(rowid) AS last FROM ({matches})"
    return Statement(" UNION ALL ".join([part] * len(expressions)), tuple(expressions))


# -- The facts about memories and note chunks that a search needs, and the size of each text index.


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """The fields of a memory that ranking uses."""

    id: int
    project_id: int | None
    is_global: bool
    status: Status
    importance: Importance
    is_pinned: bool
    is_lowered: bool
    created_at_ms: int
    access_count: int
    session_ref: int
    summary: str
    entities: str


@dataclass(frozen=True, slots=True)
class NoteRowText:
    """A chunk of a note that may become a hit."""

    id: int
    source: str
    path: str
    heading: str
    text: str
    start_line: int
    changed_at_ns: int
    #: Display name of its project; "" if every project may see it.
    project: str = ""

    @property
    def at_ms(self) -> int:
        """When it was written: noon of the day in the file's name, as in a daily log, or when it last changed."""
        named = _DAY_OF_FILE.search(self.source)
        noon_ms = None if named is None else noon_of(named[1])
        return self.changed_at_ns // 1_000_000 if noon_ms is None else noon_ms


#: The name of a note for one day, such as ``daily/2026-02-20.md`` and ``saved/2026-02-20-2.md``.
_DAY_OF_FILE = lazy_regex(r"(?:^|/)(\d{4}-\d\d-\d\d)(?:-\d+)?\.md$")


def count_documents(store: Reader, table: str) -> int:
    """Return the highest row id of a text index (passage_fts, episode_fts, note_fts): roughly its number of rows."""
    return int(store.fetch_value(_HIGHEST_IDS[table]()))


_MEMORIES = RecordReader(
    MemoryRow,
    tables.Memory,
    expressions={
        "is_global": tables.Memory.scope == Scope.GLOBAL,
        "session_ref": fn.COALESCE(tables.Memory.session, 0),
    },
    readers={"is_global": bool, "status": Status.from_stored, "importance": Importance.from_stored},
    is_whole=False,
)


_NOTES = RecordReader(
    NoteRowText,
    tables.NoteChunk,
    expressions={
        "source": tables.Note.source,
        "path": tables.Note.path,
        "changed_at_ns": tables.Note.changed_at_ns,
        "project": fn.COALESCE(tables.Project.name, ""),
    },
    is_whole=False,
)


@asks_keyed(_MEMORIES, "id")
def search_rows(ids: Sequence[int]) -> Query:
    """Return row id → fields of the memory that ranking uses."""
    return _MEMORIES.select().where(in_json_list(tables.Memory.id, ids))


@asks_keyed(_NOTES, "id")
def note_rows(ids: Sequence[int], project_id: int | None = None) -> Query:
    """Return row id → note chunk, limited to what a project may see if one is given."""
    chunk, owner = tables.NoteChunk, tables.NoteChunkProject
    query = _NOTES.select().join(tables.Note).join_from(chunk, owner, on=owner.id == chunk.id)
    query = query.join_from(owner, tables.Project, JOIN.LEFT_OUTER, on=tables.Project.id == owner.project)
    is_seen = owner.project.is_null() | (owner.project == fn.COALESCE(project_id, owner.project))
    return query.where(in_json_list(chunk.id, ids) & is_seen)


def _highest_id(table: Any) -> Callable[[], Statement]:
    return prepared(lambda: table.select(fn.COALESCE(fn.MAX(table.id), 0)))


#: Text index → query for the highest id of the rows that it indexes.
_HIGHEST_IDS = {
    "passage_fts": _highest_id(tables.Passage),
    "episode_fts": _highest_id(tables.Memory),
    "note_fts": _highest_id(tables.NoteChunk),
}
