"""The candidate for a memory, and what never becomes one: text that is not worth it, and what was judged wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from engram.enums import Importance, Judgement, Kind, Scope, Status, Voice
from engram.models.memories.judgements import JudgedMemory
from engram.models.memories.memory_records import Memory
from engram.text.words import content_words

# -- The candidate for a memory that an extractor proposes, with the text and the entries it rests on.

#: Maximum length of a summary, in words; the summary is what is injected.
MAX_SUMMARY_WORDS = 40
#: Maximum length of a candidate's summary, in characters.
MAX_CANDIDATE_SUMMARY_CHARACTERS = 400
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
    #: Short strings for matching: first error line, failing command, commit, numbers.
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


# -- Filter what is written: recognize text that never becomes a memory, and repetitions.

#: The tag around every text that Engram injects; nothing is learned from a message that contains it.
INJECTION_MARKER = "engram-memories"
#: Share of common words, of the shorter bite, from which on two bites say the same.
SAME_SHARE = 0.6

_OWN = re.compile(rf"</?{INJECTION_MARKER}\b|\[(?:ep|q)_[0-9a-z]{{6,}}\]", re.IGNORECASE)
_LOG_LINE = re.compile(
    r"^\s*(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|(?:INFO|DEBUG|WARN(?:ING)?|ERROR|TRACE|FATAL)\b|"
    r"at \S+ ?\(|File \"|Traceback|goroutine \d|--- (?:FAIL|PASS)|=== RUN|[+-]{3} [ab]/|@@ |\$ |> )"
)


def is_own(text: str) -> bool:
    """Return True if the text contains something that Engram injected."""
    return bool(_OWN.search(text))


def is_log(text: str) -> bool:
    """Return True if most lines are of a pasted log, stack trace or diff."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) >= 3 and sum(bool(_LOG_LINE.match(line)) for line in lines) * 2 >= len(lines)


def repeats(bite: str, others: Iterable[frozenset[str]]) -> bool:
    """Return True if a bite says the same as one of the others, which are given as ``content_words``."""
    words = content_words(bite)
    if not words:
        # The words of other scripts are not compared; a line without any letter says nothing.
        return not any(letter.isalpha() for letter in bite)
    return any(len(words & other) >= SAME_SHARE * max(1, min(len(words), len(other))) for other in others)


# -- Recognize a proposal that says again what was judged wrong or outdated. Pure.

#: Share of the words of the longer of two statements that the shorter one must have.
MIN_SHARE = 0.8

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_ARTICLES = frozenset(("a", "an", "the"))
#: Words that change what a statement says.
_TURNS = re.compile(r".*\d.*|not|no|never|none|without|instead|only|but|except|.+n['’]t|cannot")


def is_said_again(new: Memory, judged: JudgedMemory) -> bool:
    """Return True if a new memory says what was judged, and nothing newer speaks for it.

    What the user says after a judgement counts; so does what anybody says after a memory was judged outdated, since it
    may hold again.
    """
    is_later = judged.at_ms > 0 and new.created_at_ms > judged.at_ms
    is_users = new.voice in (Voice.USER, Voice.CHOSEN)
    if is_later and (is_users or judged.judgement is Judgement.OUTDATED):
        return False
    return says_the_same(new.summary, judged.memory.summary)


def says_the_same(first: str, second: str) -> bool:
    """Return True if one statement has all words of the other and hardly more, none of which is a number or denies it.

    Two statements that differ in a word each are not the same: one may correct the other.
    """
    short, long = sorted((_words(first), _words(second)), key=len)
    if not short or not short <= long or len(short) < MIN_SHARE * len(long):
        return False
    return not any(_TURNS.fullmatch(word) for word in long - short)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _ARTICLES
