"""List what awaits a decision: memories that contradict each other or one of the user's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.judgements import Contradiction, open_contradictions
from engram.models.memories.memory_records import Memory, memories_by_row
from engram.models.projects.notes import list_standing_files
from engram.models.search.memory_lists import current_summaries, suspect_memories
from engram.notes.standing import standing_text
from engram.system.clock import iso_or_none
from engram.text.subject import StandingText

# -- Current memories that one of the user's files (CLAUDE.md, rules, auto memory) contradicts.


@dataclass(frozen=True, slots=True)
class FileContradiction:
    """A memory, and the contradicting line of a file."""

    memory: Memory
    #: Such as ``CLAUDE.md: the proxy listens on port 7070``.
    file_says: str


def compare_some(store: Store, after: int = 0, limit: int = -1) -> tuple[list[FileContradiction], int]:
    """Compare some memories with the files, oldest first.

    Args:
        after: row id of the last memory compared so far; 0 to start.

    Returns:
        The memories that a file contradicts, and the row id to pass as ``after`` next; 0 once every memory was
        compared.
    """
    if not list_standing_files(store):
        return [], 0
    rows = current_summaries(store, after, limit)
    texts: dict[int | None, StandingText] = {}
    found: dict[int, str] = {}
    for row_id, project_id, summary in rows:
        if project_id not in texts:
            texts[project_id] = standing_text(store, project_id)
        if says := texts[project_id].contradicting(summary):
            found[row_id] = says
    memories = memories_by_row(store, list(found))
    contradicted = [FileContradiction(memories[row_id], says) for row_id, says in found.items() if row_id in memories]
    return contradicted, rows[-1][0] if len(rows) == limit else 0


@dataclass(frozen=True, slots=True)
class OpenContradiction:
    """Two current memories between which a person has to choose."""

    contradiction: Contradiction
    older: Memory
    newer: Memory

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.contradiction.id,
            "reason": self.contradiction.reason,
            "made_at": iso_or_none(self.contradiction.made_at_ms),
            "older": side_to_json(self.older),
            "newer": side_to_json(self.newer),
        }


@dataclass(frozen=True, slots=True)
class Contradictions:
    waiting: tuple[OpenContradiction, ...]
    of_files: tuple[FileContradiction, ...]
    #: Memories whose text looks like an instruction; Claude is not shown them until a person trusts them.
    suspects: tuple[Memory, ...] = ()

    @property
    def count(self) -> int:
        return len(self.waiting) + len(self.of_files) + len(self.suspects)

    def to_json(self) -> dict[str, Any]:
        return {
            "contradictions": [pair.to_json() for pair in self.waiting],
            "of_files": [
                {"memory": side_to_json(found.memory), "file_says": found.file_says} for found in self.of_files
            ],
            "suspects": [side_to_json(memory) | {"suspect": memory.suspect} for memory in self.suspects],
        }


def list_contradictions(store: Store, *, with_files: bool = True) -> Contradictions:
    """Return what awaits a decision, oldest first; ``with_files=False`` skips comparing with files, which is slow."""
    waiting = []
    for contradiction in open_contradictions(store):
        older, newer = (
            memory_records.find_memory(store, contradiction.older_id),
            memory_records.find_memory(store, contradiction.newer_id),
        )
        if older is not None and newer is not None:
            waiting.append(OpenContradiction(contradiction, older, newer))
    return Contradictions(
        tuple(waiting), tuple(compare_some(store)[0]) if with_files else (), tuple(suspect_memories(store))
    )


def side_to_json(memory: Memory) -> dict[str, Any]:
    """Return what a person needs to know about a memory in order to choose."""
    return {
        "id": memory.episode_id,
        "summary": memory.summary,
        "voice": memory.voice,
        "pinned": memory.is_pinned,
        "status": memory.status,
        "created_at": iso_or_none(memory.created_at_ms),
    }
