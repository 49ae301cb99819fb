"""The interface of extractors, and the context that they get with the turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engram.enums import Kind
from engram.extraction.candidate import Candidate
from engram.transcripts.turns import Turn

#: Prefix of a reference to a proposal of an earlier part of the same extraction.
PROPOSAL = "proposal "


@dataclass(frozen=True, slots=True)
class NearMemory:
    """An existing memory as an extractor sees it."""

    summary: str
    #: Its id; for a proposal that is not stored yet, ``PROPOSAL`` and its number.
    reference: str = ""
    kind: Kind = Kind.FACT
    #: in force; judged wrong or outdated, with the reason.
    state: str = "in force"
    #: When it was said, in milliseconds since 1970.
    at_ms: int = 0
    #: Pinned or saved by hand: no extractor changes it.
    is_fixed: bool = False
    #: A rule, in the user's own words.
    is_users_rule: bool = False


@dataclass(frozen=True, slots=True)
class ExtractionContext:
    """What an extractor gets besides the turns; every field is optional."""

    #: Display name of the project; "" for none.
    project: str = ""
    #: True if the session was started in a root folder or outside any project.
    is_global: bool = False
    #: Summaries of the memories of this session's other turns, oldest first; they are not proposed again.
    known: tuple[str, ...] = ()
    #: Those of ``known`` that are the user's own words: only they keep a rule of the user from being proposed.
    known_of_user: tuple[str, ...] = ()
    #: Number of memories that the session has already.
    kept_before: int = 0
    #: Maximum number of memories of a session.
    session_cap: int = 60
    #: Summary of the session by an earlier extraction; "" for none.
    rolling_summary: str = ""
    #: Row id of the project; None for none.
    project_id: int | None = None
    #: Memories of the session's other turns, oldest first; candidates may refer to them.
    own: tuple[NearMemory, ...] = ()
    #: Memories of the project that are near to the turns, the nearest first.
    near: tuple[NearMemory, ...] = ()
    #: The session's next turn after these; None if there is none yet.
    following: Turn | None = None
    #: Orders of the user in these turns that they gave in another session too, as ``user_rules.orders`` returns them.
    said_before: frozenset[str] = frozenset()


class Extractor(Protocol):
    """Proposes candidates from turns. Never touches storage.

    An extractor that summarizes sessions also has ``rolling_summary``: the summary of the session of the last proposal.
    An extractor whose candidates depend on the session's turns only has ``is_repeatable = True``: every
    turn of the session is proposed again, so that the result does not depend on when a session was extracted.
    """

    #: Stored with each memory, such as ``local-2``.
    name: str

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """Return candidates of the turns, in the order of the turns.

        Args:
            turns: Turns of a session in file order, with redacted texts.
            context: What is known of the session besides the turns.

        Returns:
            At most as many candidates as the context's cap allows; none if nothing is worth keeping.
        """
        ...
