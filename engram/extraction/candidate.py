"""The candidate for a memory that an extractor proposes, with the text and the entries it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from engram.enums import Importance, Kind, Scope, Status, Voice

#: Maximum length of a summary, in words; the summary is what is injected.
MAX_SUMMARY_WORDS = 40
#: Maximum length of a candidate's summary, in characters.
MAX_CANDIDATE_SUMMARY_CHARACTERS = 400
#: Maximum number of facts of a candidate.
MAX_FACTS = 5
#: Actions that end their target: it is superseded or archived.
ENDING_ACTIONS = ("corrects", "supersedes", "resolves", "retracts")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory proposed from one or more turns. Its text is redacted and contains no tool output."""

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
    #: Questions that it answers, in other words than its own; at most ``MAX_QUESTIONS``.
    questions: tuple[str, ...] = ()
    #: What a list shows of it; "" to take its first clause.
    title: str = ""
    importance: Importance = Importance.NORMAL
    scope: Scope = Scope.PROJECT
    voice: Voice = Voice.ASSISTANT
    #: How likely it holds as stated, 0 to 1.
    confidence: float = 0.5
    status: Status = Status.PROVISIONAL
    #: Why it must never be injected; "" if it may be.
    suspect: str = ""
    #: How likely it is worth keeping, 0 to 1.
    quality: float = 0.0
    #: The extractor that proposed it if another one stood in; "" for the one that was asked.
    extractor: str = ""
    #: What it says of ``target``: new (nothing), same, corrects, supersedes, resolves or retracts.
    action: str = "new"
    #: Id of the memory that the action refers to; "" for a new one.
    target: str = ""
    #: True if the user said or chose any of its evidence.
    rests_on_user: bool = False
    #: When the latest of its evidence was said, in milliseconds since 1970; 0 if that is not known.
    said_at_ms: int = 0
