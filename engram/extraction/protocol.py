"""The interface of every extractor, and what it is told about the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engram.enums import Kind
from engram.extraction.candidate import Candidate
from engram.transcripts.record import Turn

#: Begins the reference of a proposal of an earlier part of the same extraction.
PROPOSAL = "proposal "


@dataclass(frozen=True, slots=True)
class NearMemory:
    """A memory that is kept already, as an extractor is shown it."""

    summary: str
    #: Its id; of a proposal that is not stored yet, ``PROPOSAL`` and its number.
    reference: str = ""
    kind: Kind = Kind.FACT
    #: in force, or in force but not confirmed.
    state: str = "in force"
    #: When it was said.
    at_ms: int = 0
    #: Pinned or saved by hand: no extractor changes it.
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class ExtractionContext:
    """What an extractor knows beside the turns; all of it may be left out."""

    #: Display name of the project; "" where there is none.
    project: str = ""
    #: Whether the session was started in a root folder or outside any project.
    is_global: bool = False
    #: Bites already kept of this session's other turns, oldest first; they are not proposed twice.
    known: tuple[str, ...] = ()
    #: How many memories the session has already.
    kept_before: int = 0
    #: Most memories a session may have in all.
    session_cap: int = 60
    #: What the session is about so far, as an earlier extraction said; "" where none did.
    rolling_summary: str = ""
    #: Row id of the project; None where there is none.
    project_id: int | None = None
    #: Memories of the session's other turns, oldest first: the answer may refer to them.
    own: tuple[NearMemory, ...] = ()
    #: Memories of the project that are near to the turns, the nearest first.
    near: tuple[NearMemory, ...] = ()
    #: The session's turns before these; only a repeatable extractor is given them.
    before: tuple[Turn, ...] = ()
    #: The session's next turn after these; None where there is none yet.
    following: Turn | None = None


class Extractor(Protocol):
    """Turns in, candidates out. Never touches storage.

    One that sums a session up has, beside this, ``rolling_summary``: what the session of the last proposal is about.
    One whose candidates depend on nothing but the session's turns has ``is_repeatable = True``: the turns around those
    that grew are proposed again, so that the result does not depend on when a session was extracted.
    """

    #: Stored with each episode, such as ``local-1``.
    name: str

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """Candidates of one session's turns, in the order of the turns.

        Args:
            turns: Turns of one session in file order, texts redacted.
            context: What is known of the session beside them.

        Returns:
            At most what the context's cap leaves room for; empty where nothing is worth keeping.
        """
        ...
