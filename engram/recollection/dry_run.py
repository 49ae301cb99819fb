"""Explain how a prompt would be answered now, by a dry run of the decision made for hooks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from engram.enums import Verdict
from engram.models.projects.projects import ProjectRow
from engram.models.sessions.prompt_outcomes import Candidate
from engram.recollection.choose_bites import to_candidate
from engram.recollection.recollection_service import RecollectionService

#: Maximum number of memories and quotations that an explanation lists, most relevant first.
MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class ExplainedMemory:
    candidate: Candidate
    summary: str


@dataclass(frozen=True, slots=True)
class Explanation:
    verdict: Verdict
    #: The redacted text that was searched for; "" for none.
    text: str
    #: Display name of the project; "" for none.
    project: str
    #: Number of memories and quotations considered.
    candidates: int
    #: Relevance of the memory that decided the outcome, and the minimum it had to reach; None if none was considered.
    score: float | None
    floor: float | None
    #: True if the search had no embedding model.
    is_text_only: bool
    duration_ms: int
    #: Most relevant first.
    memories: tuple[ExplainedMemory, ...]
    #: The text that Claude would be shown; "" for none.
    shown: str

    def to_json(self) -> dict[str, Any]:
        memories = [
            asdict(memory.candidate) | {"id": memory.candidate.episode_id, "summary": memory.summary}
            for memory in self.memories
        ]
        facts = asdict(self) | {"text_only": self.is_text_only, "memories": memories}
        del facts["is_text_only"]
        return facts

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Explanation:
        """Return the explanation that ``to_json`` wrote.

        Raises:
            KeyError: a key is missing, for example because another version wrote the JSON.
        """
        memories = [
            ExplainedMemory(
                Candidate(**_known_to(Candidate, {**memory, "episode_id": memory["id"]})), memory["summary"]
            )
            for memory in values["memories"]
        ]
        facts = _known_to(cls, {**values, "is_text_only": values["text_only"]})
        return cls(**facts | {"memories": tuple(memories)})


def explain(
    service: RecollectionService, prompt: str, project: ProjectRow | None = None, *, session_id: str = ""
) -> Explanation:
    """Explain which answer a prompt would get now, without changing anything."""
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
            for rated_hit in sorted(answer.selection.rated, key=lambda rated: -rated.score)[:MAX_LISTED]
        ),
        shown=str(output),
    )


def _known_to(record: type[Candidate | Explanation], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the values of a record's own fields. Raises KeyError if one is missing."""
    return {field.name: values[field.name] for field in fields(record)} | {
        "verdict": Verdict.from_stored(values["verdict"])
    }
