"""Memories in force that one of the user's own files (CLAUDE.md, rules, auto memory) contradicts."""

from __future__ import annotations

from dataclasses import dataclass

from engram.models.episodes import Episode, all_episodes
from engram.models.store import Store
from engram.notes.standing import standing_text


@dataclass(frozen=True, slots=True)
class FileContradiction:
    """A memory, and what a file says instead."""

    memory: Episode
    #: Such as ``CLAUDE.md: the proxy listens on port 7070``.
    file_says: str


def list_file_contradictions(store: Store) -> list[FileContradiction]:
    """Return the memories that a file of their own project, or one that holds everywhere, contradicts."""
    contradictions = []
    for memory in all_episodes(store):
        if not memory.is_current:
            continue
        text = standing_text(store, memory.project_id).contradicting(memory.summary)
        if text:
            contradictions.append(FileContradiction(memory, text))
    return contradictions
