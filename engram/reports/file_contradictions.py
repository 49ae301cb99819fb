"""Memories in force that one of the user's own files (CLAUDE.md, rules, auto memory) contradicts."""

from __future__ import annotations

from dataclasses import dataclass

from engram.models.episode_lists import current_summaries
from engram.models.episodes import Episode, episodes_by_row
from engram.models.standing_files import list_standing_files
from engram.models.store import Store
from engram.notes.standing import standing_text
from engram.text.file_statements import StandingText


@dataclass(frozen=True, slots=True)
class FileContradiction:
    """A memory, and what a file says instead."""

    memory: Episode
    #: Such as ``CLAUDE.md: the proxy listens on port 7070``.
    file_says: str


def list_file_contradictions(store: Store) -> list[FileContradiction]:
    """Return the memories that a file of their own project, or one that holds everywhere, contradicts.

    This compares every current memory: about a second for 50,000.
    """
    return compare_some(store)[0]


def compare_some(store: Store, after: int = 0, limit: int = -1) -> tuple[list[FileContradiction], int]:
    """Compare some memories with the files, the oldest first.

    Args:
        store: the open memory.
        after: row id of the last memory that was compared before; 0 to begin.
        limit: how many memories to compare; -1 for all.

    Returns:
        Those that a file contradicts, and the row id to go on after; 0 if every memory was compared.
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
    memories = episodes_by_row(store, list(found))
    contradicted = [FileContradiction(memories[row_id], says) for row_id, says in found.items() if row_id in memories]
    return contradicted, rows[-1][0] if len(rows) == limit else 0
