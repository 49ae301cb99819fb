"""What is asked of a search and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engram.enums import Importance, Status
from engram.models.episodes import Episode
from engram.models.turns import EvidencePlace

#: Longest question that is looked at, in characters.
MAX_QUERY_CHARS = 4_000
#: Hits of one answer at most, whoever asks.
MAX_HITS = 1_000


@dataclass(frozen=True, slots=True)
class Query:
    """One question to the memory."""

    text: str
    #: Only this project; None searches all.
    project_id: int | None = None
    #: With a project: also memories of global scope.
    with_global: bool = True
    #: Hits at most.
    limit: int = 5
    #: When it is asked, in milliseconds since 1970; None is now. "Yesterday" counts from here.
    now_ms: int | None = None
    #: Files at hand, as written.
    files: tuple[str, ...] = ()
    #: Claude Code's session that asks; "" for none.
    session_id: str = ""
    #: A command that was run, and the first line of its error; "" for none.
    command: str = ""
    error: str = ""
    #: Also what is hardly likely to answer, up to ``limit``: for weighing something by it, not for showing.
    thorough: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer, with the parts of its score."""

    #: ``ep_…`` of an episode, ``turn_…#passage`` of a passage, ``source#line`` of a note.
    id: str
    #: An episode's kind; ``turn`` for a passage; ``note``.
    kind: str
    #: What is shown: an episode's summary, a passage or a part of a note, word for word.
    text: str
    #: Higher is better; comparable inside one answer.
    score: float
    #: Name of a step → what it added to the score.
    parts: Mapping[str, float]
    #: Display name of the project; "" for none.
    project: str = ""
    created_at_ms: int = 0
    evidence: tuple[EvidencePlace, ...] = ()
    #: active, provisional, superseded or archived; active for what is no episode.
    status: Status = Status.ACTIVE
    importance: Importance = Importance.NORMAL
    episode: Episode | None = None
    #: Claude Code's session; "" for none.
    session_id: str = ""
    #: Who said it: user or assistant; "" for a note.
    role: str = ""
    #: Row ids of the turn and of the passage, episode or note chunk.
    turn_id: int | None = None
    row_id: int = 0
    #: Cosine to the query; None where there was no model.
    cosine: float | None = field(default=None, compare=False)
    #: The question comes near to nothing: this is the nearest, and may not answer it.
    is_doubtful: bool = field(default=False, compare=False)

    @property
    def summary(self) -> str:
        """The same as ``text``: an episode's one line."""
        return self.text
