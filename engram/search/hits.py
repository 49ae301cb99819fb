"""``Hit``: one search result within the process that searched. ``PublicHit`` is what everybody else gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engram.enums import Importance, Status
from engram.models.episodes import Episode
from engram.models.evidence_places import EvidencePlace


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of ``recall`` (a memory) or ``search`` (a passage of a turn, or a chunk of a note)."""

    #: ``ep_…`` of a memory, ``q_…`` of a passage (a quotation), ``source#line`` of a note.
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
    #: The folder that a passage was said in; "" for anything else.
    cwd: str = ""
    #: The question that a quotation answers; "" for anything else.
    asked: str = ""
    #: The branch that a memory was learned on, if it was not merged and the asker works elsewhere; else "".
    branch: str = ""
    #: What the relevance of a memory is multiplied by before it is shown unasked: below 1 if it was shown often and
    #: never used, above 1 if it was judged helpful (``engram.models.usefulness``).
    use_factor: float = field(default=1.0, compare=False)
    #: Cosine to the query; None without a model.
    cosine: float | None = field(default=None, compare=False)
    #: No hit of the answer matches the question closely; this one is among the closest.
    is_doubtful: bool = field(default=False, compare=False)
