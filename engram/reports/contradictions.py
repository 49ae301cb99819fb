"""What waits for a decision: memories that contradict each other, or that a file of the user's contradicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engram.clock import iso_time
from engram.models import episodes
from engram.models.contradictions import Contradiction, open_contradictions
from engram.models.episode_lists import suspect_episodes
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.reports.file_contradictions import FileContradiction, list_file_contradictions


@dataclass(frozen=True, slots=True)
class OpenContradiction:
    """Two memories in force of which a person has to choose."""

    contradiction: Contradiction
    older: Episode
    newer: Episode

    def to_json(self) -> dict[str, Any]:
        """The contradiction for scripts."""
        return {
            "number": self.contradiction.id,
            "reason": self.contradiction.reason,
            "made_at": _iso(self.contradiction.made_at_ms),
            "older": side_to_json(self.older),
            "newer": side_to_json(self.newer),
        }


@dataclass(frozen=True, slots=True)
class Contradictions:
    """Everything that waits for a person's decision."""

    waiting: tuple[OpenContradiction, ...]
    of_files: tuple[FileContradiction, ...]
    #: Memories whose text looks like an order to Claude: they are never shown to it until a person trusts them.
    suspects: tuple[Episode, ...] = ()

    @property
    def count(self) -> int:
        """How many decisions wait."""
        return len(self.waiting) + len(self.of_files) + len(self.suspects)

    def to_json(self) -> dict[str, Any]:
        """The contradictions for scripts."""
        return {
            "contradictions": [one.to_json() for one in self.waiting],
            "of_files": [
                {"memory": side_to_json(found.memory), "file_says": found.file_says} for found in self.of_files
            ],
            "suspects": [side_to_json(memory) | {"suspect": memory.suspect} for memory in self.suspects],
        }


def list_contradictions(store: Store, *, with_files: bool = True) -> Contradictions:
    """Return what waits for a decision, the oldest first.

    Comparing every memory with the user's files takes long where there are many; ``with_files=False`` leaves it out.
    """
    waiting = []
    for one in open_contradictions(store):
        older, newer = episodes.find_episode(store, one.older_id), episodes.find_episode(store, one.newer_id)
        if older is not None and newer is not None:
            waiting.append(OpenContradiction(one, older, newer))
    return Contradictions(
        tuple(waiting), tuple(list_file_contradictions(store)) if with_files else (), tuple(suspect_episodes(store))
    )


def side_to_json(episode: Episode) -> dict[str, Any]:
    """Return what a choice needs to know of a memory."""
    return {
        "id": episode.episode_id,
        "summary": episode.summary,
        "voice": episode.voice,
        "pinned": episode.is_pinned,
        "status": episode.status,
        "created_at": _iso(episode.created_at_ms),
    }


def _iso(at_ms: int) -> str | None:
    return iso_time(at_ms) if at_ms else None
