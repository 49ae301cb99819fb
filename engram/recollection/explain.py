"""What a prompt would be answered now, and why: a dry run of the very decision that answers a hook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engram.enums import Verdict
from engram.models.projects.projects import ProjectRow
from engram.models.sessions.outcomes import Candidate
from engram.recollection.choosing import to_candidate
from engram.recollection.recollecting import RecollectionService

#: Maximum number of memories that an explanation lists, the most relevant first.
MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class ExplainedMemory:
    """A memory that was considered."""

    candidate: Candidate
    summary: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a prompt would be answered. ``to_json`` is what crosses engram.sock."""

    verdict: Verdict
    #: The redacted text that was searched for; "" for none.
    text: str
    #: Display name of the project; "" for none.
    project: str
    #: How many memories were considered.
    candidates: int
    #: Relevance of the memory that decided, and what it needed; None if none was considered.
    score: float | None
    floor: float | None
    #: The search had no embedding model.
    is_text_only: bool
    duration_ms: int
    #: The most relevant first.
    memories: tuple[ExplainedMemory, ...]
    #: What Claude would be shown; "" for nothing.
    shown: str

    def to_json(self) -> dict[str, Any]:
        """Return the explanation for engram.sock."""
        return {
            "verdict": self.verdict.value,
            "text": self.text,
            "project": self.project,
            "candidates": self.candidates,
            "score": self.score,
            "floor": self.floor,
            "text_only": self.is_text_only,
            "duration_ms": self.duration_ms,
            "memories": [
                {
                    "place": memory.candidate.place,
                    "id": memory.candidate.episode_id,
                    "verdict": memory.candidate.verdict.value,
                    "score": memory.candidate.score,
                    "floor": memory.candidate.floor,
                    "features": dict(memory.candidate.features),
                    "summary": memory.summary,
                }
                for memory in self.memories
            ],
            "shown": self.shown,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Explanation:
        """Return the explanation that ``to_json`` wrote.

        Raises:
            KeyError: a key is missing, as in the answer of another version.
        """
        return cls(
            verdict=Verdict.from_stored(values["verdict"]),
            text=values["text"],
            project=values["project"],
            candidates=values["candidates"],
            score=values["score"],
            floor=values["floor"],
            is_text_only=values["text_only"],
            duration_ms=values["duration_ms"],
            memories=tuple(_memory_from_json(memory) for memory in values["memories"]),
            shown=values["shown"],
        )


def explain(
    service: RecollectionService, prompt: str, project: ProjectRow | None = None, *, session_id: str = ""
) -> Explanation:
    """Explain what a prompt would be answered now. Nothing is stored, claimed or withdrawn.

    Args:
        service: what answers the hooks.
        prompt: as a person would type it.
        project: the project that it is asked in; None for none, or for that of the session.
        session_id: a session that it is asked in; "" for a new one.
    """
    answer = service.explain(prompt, project=project, session_id=session_id)
    outcome = answer.outcome
    output = json.loads(answer.output)["hookSpecificOutput"]["additionalContext"] if answer.output else ""
    return Explanation(
        verdict=outcome.verdict,
        text=answer.text,
        project="" if project is None else project.name,
        candidates=outcome.candidates,
        score=outcome.score,
        floor=outcome.floor,
        is_text_only=outcome.is_text_only,
        duration_ms=outcome.duration_ms,
        memories=tuple(
            ExplainedMemory(to_candidate(rated_hit), rated_hit.hit.text)
            for rated_hit in answer.selection.rated[:MAX_LISTED]
        ),
        shown=str(output),
    )


def _memory_from_json(values: Mapping[str, Any]) -> ExplainedMemory:
    candidate = Candidate(
        place=values["place"],
        episode_id=values["id"],
        verdict=Verdict.from_stored(values["verdict"]),
        score=values["score"],
        floor=values["floor"],
        features=values["features"],
    )
    return ExplainedMemory(candidate, values["summary"])
