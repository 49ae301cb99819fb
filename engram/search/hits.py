"""Search results: ``Hit`` within the process that searched, ``PublicHit`` for everybody else.

``PublicHit`` is what the command line and the MCP server show, and the JSON on engram.sock and of ``--json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engram.clock import iso_time, parse_time_ms
from engram.enums import Importance, Status
from engram.models.episodes import Episode
from engram.models.evidence_places import EvidencePlace
from engram.redaction.display import one_line

#: Maximum length of the name of a branch that is shown, in characters.
MAX_BRANCH_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of ``recall`` (a memory) or ``search`` (a passage of a turn, or a chunk of a note)."""

    #: ``ep_…`` of a memory, ``turn_…#passage`` of a passage, ``source#line`` of a note.
    id: str
    #: A memory's kind; ``turn`` for a passage; ``note``.
    kind: str
    #: What is shown: a memory's summary, or a part of a turn or a note, word for word.
    text: str
    #: Higher is better; comparable within one answer.
    score: float
    #: Name of a scorer → what it added to the score.
    parts: Mapping[str, float]
    #: Display name of the project; "" for none.
    project: str = ""
    created_at_ms: int = 0
    evidence: tuple[EvidencePlace, ...] = ()
    #: The status of a memory; active for passages and notes.
    status: Status = Status.ACTIVE
    importance: Importance = Importance.NORMAL
    #: The stored memory; None for a passage or a note.
    episode: Episode | None = None
    #: Claude Code's session; "" for none.
    session_id: str = ""
    #: Who said it: user or assistant; "" for a note or a memory.
    role: str = ""
    #: Row ids of the turn, and of the passage, memory or note chunk.
    turn_id: int | None = None
    row_id: int = 0
    #: The branch that a memory was learned on, if it was not merged and the asker works elsewhere; else "".
    branch: str = ""
    #: What the relevance of a memory is multiplied by before it is shown unasked: below 1 if it was shown often and
    #: never used, above 1 if it was judged helpful (``engram.models.usefulness``).
    use_factor: float = field(default=1.0, compare=False)
    #: Cosine to the query; None without a model.
    cosine: float | None = field(default=None, compare=False)
    #: No hit of the answer matches the question closely; this one is among the closest.
    is_doubtful: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class MemoryFields:
    """What a hit says of a memory beyond what every hit has."""

    content: str
    scope: str
    is_pinned: bool
    is_lowered: bool
    #: Id of the memory that replaced it; "" for none.
    superseded_by: str
    #: Why it may no longer hold; "" if nothing speaks against it.
    stale_reason: str
    #: The branch that it was learned on, if it was not merged and the asker works elsewhere; else "".
    branch: str


@dataclass(frozen=True, slots=True)
class PublicHit:
    """One hit without what only the search needs. ``to_json`` and ``from_json`` are the one list of its JSON keys."""

    #: ``ep_…`` of a memory, ``turn_…#passage`` of a passage, ``source#line`` of a note.
    id: str
    #: A memory's kind; ``turn`` for a passage; ``note``.
    kind: str
    #: A memory's summary, a passage or a part of a note.
    text: str
    score: float
    #: Name of a step of the ranking → what it added to the score.
    parts: Mapping[str, float]
    #: Display name of the project; "" for none.
    project: str
    #: When it was said or written; 0 if that is not known.
    created_at_ms: int
    evidence: tuple[EvidencePlace, ...]
    #: Claude Code's session; "" for none.
    session_id: str
    status: Status
    importance: Importance
    #: Who said it: user or assistant; "" for a note or a memory.
    role: str
    #: Cosine to the query; None if there was no model.
    cosine: float | None
    #: No hit of the answer is close: these are the closest.
    is_doubtful: bool
    #: None for a passage or a note.
    memory: MemoryFields | None

    @classmethod
    def of(cls, hit: Hit) -> PublicHit:
        """What others may see of a hit."""
        episode = hit.episode
        return cls(
            id=hit.id,
            kind=hit.kind,
            text=hit.text,
            score=round(hit.score, 6),
            parts={name: round(float(value), 6) for name, value in hit.parts.items()},
            project=hit.project,
            created_at_ms=hit.created_at_ms // 1000 * 1000,
            evidence=hit.evidence,
            session_id=hit.session_id,
            status=hit.status,
            importance=hit.importance,
            role=hit.role,
            cosine=None if hit.cosine is None else round(hit.cosine, 6),
            is_doubtful=hit.is_doubtful,
            memory=None
            if episode is None
            else MemoryFields(
                content=episode.content,
                scope=episode.scope,
                is_pinned=episode.is_pinned,
                is_lowered=episode.is_lowered,
                superseded_by=episode.superseded_by,
                stale_reason=episode.stale_reason,
                branch=one_line(hit.branch, MAX_BRANCH_CHARACTERS),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """The hit for ``--json`` and engram.sock; the keys of a memory are left out of other hits."""
        values: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "text": self.text,
            "score": self.score,
            "parts": dict(self.parts),
            "project": self.project,
            "created_at": iso_time(self.created_at_ms) if self.created_at_ms else None,
            "evidence": [place_to_json(place) for place in self.evidence],
            "session": self.session_id,
            "status": self.status,
            "importance": self.importance,
            "role": self.role,
            "cosine": self.cosine,
            "doubtful": self.is_doubtful,
        }
        if self.memory is not None:
            values |= {
                "content": self.memory.content,
                "scope": self.memory.scope,
                "pinned": self.memory.is_pinned,
                "lowered": self.memory.is_lowered,
                "superseded_by": self.memory.superseded_by,
                "stale": self.memory.stale_reason,
                "unmerged_branch": self.memory.branch,
            }
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> PublicHit:
        """A hit that ``to_json`` wrote.

        Raises:
            KeyError: a key is missing, as in the answer of another version.
        """
        return cls(
            id=values["id"],
            kind=values["kind"],
            text=values["text"],
            score=values["score"],
            parts=values["parts"],
            project=values["project"],
            created_at_ms=parse_time_ms(values["created_at"]) or 0,
            evidence=tuple(_place_from_json(place) for place in values["evidence"]),
            session_id=values["session"],
            status=Status.from_stored(values["status"]),
            importance=Importance.from_stored(values["importance"]),
            role=values["role"],
            cosine=values["cosine"],
            is_doubtful=values["doubtful"],
            memory=_memory_from_json(values) if "content" in values else None,
        )

    @property
    def caveats(self) -> str:
        """What a reader must know before believing it; "" for a hit that holds.

        "superseded by ep_…", "archived", "may no longer hold: <reason>", "marked as bad", "on branch <name>, not
        merged"; several are joined.
        """
        memory = self.memory
        if memory is None:
            return ""
        caveats = []
        if self.status == Status.SUPERSEDED:
            caveats.append(f"superseded by {memory.superseded_by}" if memory.superseded_by else "superseded")
        elif self.status == Status.ARCHIVED:
            caveats.append(self.status)
        if memory.stale_reason:
            caveats.append(f"may no longer hold: {memory.stale_reason}")
        if memory.is_lowered:
            caveats.append("marked as bad")
        if memory.branch:
            caveats.append(f"on branch {memory.branch}, not merged")
        return "; ".join(caveats)


def _memory_from_json(values: Mapping[str, Any]) -> MemoryFields:
    return MemoryFields(
        content=values["content"],
        scope=values["scope"],
        is_pinned=values["pinned"],
        is_lowered=values["lowered"],
        superseded_by=values["superseded_by"],
        stale_reason=values["stale"],
        branch=values["unmerged_branch"],
    )


def place_to_json(place: EvidencePlace) -> dict[str, Any]:
    """The form of ``evidence`` in every command's JSON."""
    return {
        "session": place.session_id,
        "uuid": place.uuid,
        "path": place.path,
        "part": place.part,
        "position": place.position,
        "line": place.line or None,
    }


def _place_from_json(values: Mapping[str, Any]) -> EvidencePlace:
    return EvidencePlace(
        session_id=values["session"],
        uuid=values["uuid"],
        path=values["path"],
        line=values["line"] or 0,
        part=values["part"],
        position=values["position"],
    )
