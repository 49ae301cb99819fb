"""Write, join, load and compare, for tests and benchmarks; the program itself does these in other ways."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence

from engram.enums import Actor
from engram.models import tables
from engram.models.engine.statement import pack_uuid
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories.memory_history import snapshot
from engram.models.memories.memory_records import all_memories, evidence_of
from engram.models.search.vector_rows import vector_batches
from engram.models.sessions.sessions import SessionRow
from engram.models.sessions.turn_changes import join_in, write_turns
from engram.transcripts.turns import Turn


def write_turn(tx: Tx, turn: Turn, session: SessionRow, transcript_id: int) -> int:
    """Store a turn, or the growth of a stored one; return its row id."""
    return write_turns(tx, [turn], session, transcript_id)[0]


def join_projects(store: Store, into: int, others: Sequence[int], *, actor: Actor, is_said: bool = True) -> int:
    """Move everything in other projects to the project ``into``; return how many sessions were moved."""
    with store.transaction() as tx:
        return sum(join_in(tx, into, other, actor=actor, is_said=is_said) for other in others)


def load_vectors(store: Reader, owner: str, model: str) -> list[tuple[int, int, bytes]]:
    """Return ``(row id, piece, vector)`` of every vector of a kind."""
    return [vector for batch in vector_batches(store, owner, model, sys.maxsize) for vector in batch]


def content_digest(store: Reader) -> str:
    """Return a SHA-256 digest of the whole content of all memories, to prove that an undo restored it."""
    digest = hashlib.sha256()
    for memory in all_memories(store):
        state = {**snapshot(memory), "evidence": [pack_uuid(e.uuid).hex() for e in evidence_of(store, memory.id)]}
        content = tables.Memory.select(tables.Memory.packed_content).where(tables.Memory.id == memory.id)
        packed = int(store.fetch_value(content) is not None)
        digest.update(json.dumps([state, packed], sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()
