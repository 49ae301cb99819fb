"""What an extractor proposes: a candidate, with the text and the entries it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from engram.enums import Importance, Kind, Scope, Status, Voice

#: Longest summary, in words; what is injected is this one line.
MAX_SUMMARY_WORDS = 40
#: Longest summary, in characters.
MAX_CANDIDATE_SUMMARY_CHARACTERS = 400
#: Most facts a candidate lists.
MAX_FACTS = 5
#: Actions of a candidate that put their target out of force.
ENDING_ACTIONS = ("corrects", "supersedes", "resolves", "retracts")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory proposed from one or more turns. Text is redacted already and holds no tool output."""

    kind: Kind
    #: The bite: one line, at most ``MAX_SUMMARY_WORDS`` words, no web address.
    summary: str
    #: The words it rests on, verbatim, the telling passage first; at most ``MAX_CONTENT_CHARACTERS`` characters.
    content: str
    #: Uuids of the entries it rests on, the telling one first.
    evidence: tuple[str, ...]
    #: Keys of the turns it was taken from.
    turn_keys: tuple[str, ...]
    #: Short strings for matching: first error line, failing command, commit, numbers; at most ``MAX_FACTS``.
    facts: tuple[str, ...] = ()
    #: Files, symbols, commands and packages it names.
    entities: tuple[str, ...] = ()
    importance: Importance = Importance.NORMAL
    scope: Scope = Scope.PROJECT
    voice: Voice = Voice.ASSISTANT
    #: How likely it holds as stated, 0 to 1.
    confidence: float = 0.5
    status: Status = Status.PROVISIONAL
    #: Why it must never be injected by itself; "" where nothing speaks against it.
    suspect: str = ""
    #: How likely it is worth keeping, 0 to 1, by the deterministic gate.
    quality: float = 0.0
    #: The extractor that proposed it, where another one stood in; "" for the one that was asked.
    extractor: str = ""
    #: What it does to ``target``: new (nothing), same, corrects, supersedes, resolves or retracts.
    action: str = "new"
    #: Id of the memory that the action is about; "" for a new one.
    target: str = ""
    #: Whether the user said, typed or chose any of what it rests on.
    rests_on_user: bool = False
    #: When the latest of it was said; 0 where that is not known.
    said_at_ms: int = 0
