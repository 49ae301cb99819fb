"""The text index of memories. It stores no text, so removing a memory requires the words that were indexed."""

from __future__ import annotations

import json
from collections.abc import Sequence

from engram.models.engine.statement import unpack_text
from engram.models.engine.transaction import Reader, Tx, Value
from engram.models.memories.memory_records import Memory
from engram.text.words import in_pairs

_INSERT = "INSERT INTO episode_fts(rowid, summary, content, entities) VALUES (?, ?, ?, ?)"


def index_memory(tx: Tx, row_id: int) -> None:
    """Add a memory to the text index, as stored in its row."""
    tx.run_many(_INSERT, _indexed(tx, row_id))


def index_memories(tx: Tx, memories: Sequence[tuple[int, Memory]]) -> None:
    """Add new memories, each given with its row id, to the text index."""
    tx.run_many(
        _INSERT,
        [
            _words(row_id, memory.summary, memory.content, _json(memory.entities), _json(memory.questions))
            for row_id, memory in memories
        ],
    )


def unindex_memory(tx: Tx, row_id: int) -> None:
    """Remove a memory from the text index. Its row must still contain the text that was indexed."""
    tx.run_many(
        "INSERT INTO episode_fts(episode_fts, rowid, summary, content, entities) VALUES ('delete', ?, ?, ?, ?)",
        _indexed(tx, row_id),
    )


def rebuild_memory_index(tx: Tx) -> None:
    tx.run("INSERT INTO episode_fts(episode_fts) VALUES ('delete-all')")
    for (row_id,) in tx.rows("SELECT id FROM episode ORDER BY id"):
        index_memory(tx, int(row_id))


def _indexed(store: Reader, row_id: int) -> list[tuple[Value, ...]]:
    """Return the indexed text of a memory. Content that was packed because of its age is not part of it."""
    rows = store.rows("SELECT id, summary, content, entities, questions FROM episode WHERE id = ?", (row_id,))
    return [
        _words(row_id, summary, unpack_text(content), entities, questions)
        for row_id, summary, content, entities, questions in rows
    ]


def _words(row_id: int, summary: str, content: str, entities: str, questions: str) -> tuple[Value, ...]:
    """Return a row of the index. The JSON brackets of ``entities`` and ``questions`` add no tokens."""
    return row_id, in_pairs(summary), in_pairs(content), in_pairs(f"{entities} {questions}")


def _json(texts: Sequence[str]) -> str:
    return json.dumps(texts, ensure_ascii=False)
