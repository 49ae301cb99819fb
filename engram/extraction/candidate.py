"""The candidate for a memory, and filters for text that never becomes one: worthless text, and text judged wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from engram.enums import Importance, Judgement, Kind, Scope, Status, Voice
from engram.models.memories.judgements import JudgedMemory
from engram.models.memories.memory_records import MAX_CONTENT_CHARACTERS, Memory
from engram.system.lazy_regex import any_case, lazy_regex
from engram.transcripts.turns import Turn

# -- The candidate for a memory that an extractor proposes, with the text and the entries on which it rests.

#: Maximum length of a summary that a language model is asked for, in words, with some tolerance; the summary is what is
#: injected.
MAX_SUMMARY_WORDS = 40
#: Maximum length of a candidate's summary, in characters.
MAX_CANDIDATE_SUMMARY_CHARACTERS = 400
#: Actions that end their target, so that it is superseded or archived.
ENDING_ACTIONS = ("corrects", "supersedes", "resolves", "retracts")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory proposed from one or more turns. Its text is redacted and contains no tool output."""

    kind: Kind
    #: The text of the bite: one line of at most ``MAX_CANDIDATE_SUMMARY_CHARACTERS`` characters.
    summary: str
    #: The words on which it rests, verbatim, most informative first; at most ``MAX_CONTENT_CHARACTERS`` characters.
    content: str
    #: Uuids of the entries on which it rests, most informative first.
    evidence: tuple[str, ...]
    #: Keys of the turns from which it was taken.
    turn_keys: tuple[str, ...]
    #: Short strings for matching: first error line, failing command, commit, numbers.
    facts: tuple[str, ...] = ()
    #: Files, symbols, commands and packages that it mentions.
    entities: tuple[str, ...] = ()
    #: Questions that it answers, in words other than its own; at most ``MAX_QUESTIONS``.
    questions: tuple[str, ...] = ()
    #: Its title in lists; "" to use its first clause.
    title: str = ""
    importance: Importance = Importance.NORMAL
    scope: Scope = Scope.PROJECT
    voice: Voice = Voice.ASSISTANT
    #: How likely it is to be true as stated, from 0 to 1.
    confidence: float = 0.5
    status: Status = Status.PROVISIONAL
    #: Why it must never be injected; "" if it may be.
    suspect: str = ""
    #: How likely it is to be worth keeping, from 0 to 1.
    quality: float = 0.0
    #: The extractor that proposed it, if that one stood in for the requested extractor; otherwise "".
    extractor: str = ""
    #: Its relation to ``target``: new (no target), same, corrects, supersedes, resolves or retracts.
    action: str = "new"
    #: Id of the memory that the action refers to; "" for a new one.
    target: str = ""
    #: True if the user said or chose any of its evidence.
    rests_on_user: bool = False
    #: When the latest of its evidence was said, in milliseconds since 1970; 0 if unknown.
    said_at_ms: int = 0


# -- Recognise text that never becomes a memory.

#: The tag that encloses all text injected by Engram; nothing is ever learned from messages that contain it.
INJECTION_MARKER = "engram-memories"

_OWN = any_case(rf"</?{INJECTION_MARKER}\b|\[(?:ep|q)_[0-9a-z]{{6,}}\]")


def is_own(text: str) -> bool:
    """Return True if the text contains text that Engram injected."""
    return bool(_OWN.search(text))


# -- Recognise a proposal that repeats a memory judged wrong or outdated. Pure.

#: Minimum share of the longer statement's words that the shorter one must contain.
MIN_SHARE = 0.8

_WORD = lazy_regex(r"\w+(?:['’]\w+)?")
_ARTICLES = frozenset(("a", "an", "the"))
#: Words that change the meaning of a statement.
_TURNS = lazy_regex(r".*\d.*|not|no|never|none|without|instead|only|but|except|.+n['’]t|cannot")


def is_said_again(new: Memory, judged: JudgedMemory) -> bool:
    """Return True if a new memory repeats a judged one, and nothing newer supports it.

    Anything that the user says after a judgement counts as support. After a memory was judged outdated, anything that
    anyone says counts, because the memory may be true again.
    """
    is_later = judged.at_ms > 0 and new.created_at_ms > judged.at_ms
    is_users = new.voice in (Voice.USER, Voice.CHOSEN)
    if is_later and (is_users or judged.judgement is Judgement.OUTDATED):
        return False
    return says_the_same(new.summary, judged.memory.summary)


def says_the_same(first: str, second: str) -> bool:
    """Return True if one statement contains all words of the other and only a few more.

    None of the additional words may be a number or a negation.

    If each statement has a word that the other one lacks, they don't count as the same, because one may correct the
    other.
    """
    return _is_same(_words(first), _words(second))


class Statements:
    """An index of statements that finds one saying the same as a given text, without comparing it with every one."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._by_word: dict[str, list[frozenset[str]]] = {}
        #: Each statement once, under the word that the fewest others contained when it was added.
        self._by_rarest: dict[str, list[frozenset[str]]] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        words = _words(text)
        if words:
            self._by_rarest.setdefault(min(words, key=self._count), []).append(words)
        for word in words:
            self._by_word.setdefault(word, []).append(words)

    def has_same(self, text: str) -> bool:
        """Return True if ``says_the_same`` is true of the text and one of the statements."""
        words = _words(text)
        # A statement that contains all of the words is listed under each of them; a statement that consists of some of
        # the words is listed under one of those.
        longer = self._by_word.get(min(words, key=self._count), ()) if words else ()
        shorter = (statement for word in words for statement in self._by_rarest.get(word, ()))
        return any(_is_same(words, statement) for statement in chain(longer, shorter))

    def _count(self, word: str) -> int:
        return len(self._by_word.get(word, ()))


def _is_same(first: frozenset[str], second: frozenset[str]) -> bool:
    short, long = sorted((first, second), key=len)
    if not short or not short <= long or len(short) < MIN_SHARE * len(long):
        return False
    return not any(_TURNS.fullmatch(word) for word in long - short)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _ARTICLES


# -- The interface of extractors, and their input other than the turns.

#: Prefix of a reference to a proposal from an earlier part of the same extraction.
PROPOSAL = "proposal "


#: Maximum number of close memories from other sessions to show to an extractor.
MAX_NEAR_MEMORIES = 12


@dataclass(frozen=True, slots=True)
class NearMemory:
    """An existing memory, as shown to an extractor."""

    summary: str
    #: Its id; for a proposal that is not stored yet, ``PROPOSAL`` and its number.
    reference: str = ""
    kind: Kind = Kind.FACT
    #: ``in force``, or a note that it was judged wrong or outdated, with the reason.
    state: str = "in force"
    #: When it was said, in milliseconds since 1970.
    at_ms: int = 0
    #: When it ended, in milliseconds since 1970; None if it is in force.
    until_ms: int | None = None
    #: True if it was pinned or saved by hand, so that no extractor may change it.
    is_fixed: bool = False
    #: True for a rule in the user's own words.
    is_users_rule: bool = False


@dataclass(frozen=True, slots=True)
class ExtractionContext:
    """An extractor's input other than the turns; every field is optional."""

    #: Display name of the project; "" for none.
    project: str = ""
    #: True if the session was started in a root folder or outside any project.
    is_global: bool = False
    #: Summaries of the memories from this session's other turns, oldest first; they are not proposed again.
    known: tuple[str, ...] = ()
    #: The members of ``known`` that are in the user's own words; only these prevent one of the user's rules from being
    #: proposed.
    known_of_user: tuple[str, ...] = ()
    #: Number of memories that the session already has.
    kept_before: int = 0
    #: Maximum number of memories of a session.
    session_cap: int = 60
    #: Summary of the session from an earlier extraction; "" for none.
    rolling_summary: str = ""
    #: Row id of the project; None for none.
    project_id: int | None = None
    #: Memories from the session's other turns, oldest first; candidates may refer to them.
    own: tuple[NearMemory, ...] = ()
    #: Memories of the project that are close to the turns, closest first.
    near: tuple[NearMemory, ...] = ()
    #: Orders in the given turns that the user also gave in another session, as returned by ``user_rules.orders``.
    said_before: frozenset[str] = frozenset()


class Extractor(Protocol):
    """Proposes candidates from turns. Never touches storage.

    An extractor that summarizes sessions also has ``rolling_summary``, the summary of the session of the last proposal.
    An extractor with candidates that depend only on the session's turns has ``is_repeatable = True``. It is given every
    turn of the session again, so that the result does not depend on when a session was extracted.
    """

    #: Stored with each memory, such as ``local-2``.
    name: str

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """Return candidates from the turns, in the order of the turns.

        Args:
            turns: a session's turns in file order, with redacted texts.
            context: other information about the session.

        Returns:
            At most as many candidates as the context's cap allows; none if nothing is worth keeping.
        """


def cut_content(text: str) -> str:
    """Return as many whole words from the beginning of a text as a memory's content may have."""
    kept = text[:MAX_CONTENT_CHARACTERS]
    if len(kept) == len(text) or text[len(kept)].isspace():
        return kept.rstrip()
    words = kept.rsplit(None, 1)
    return words[0] if len(words) > 1 and len(words[0]) > MAX_CONTENT_CHARACTERS // 2 else kept
