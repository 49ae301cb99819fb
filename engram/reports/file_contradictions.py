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
    if not list_standing_files(store):
        return []
    texts: dict[int | None, StandingText] = {}
    found: dict[int, str] = {}
    for row_id, project_id, summary in current_summaries(store):
        if project_id not in texts:
            texts[project_id] = standing_text(store, project_id)
        if says := texts[project_id].contradicting(summary):
            found[row_id] = says
    memories = episodes_by_row(store, list(found))
    return [FileContradiction(memories[row_id], says) for row_id, says in found.items() if row_id in memories]
