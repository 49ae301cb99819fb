"""Decide whether statements are about the same thing, agree, or repeat one of the user's files. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engram.system.cached import lru_cache_by_text
from engram.system.lazy_regex import any_case, lazy_regex
from engram.text.splitting import plain, split
from engram.text.words import STOP_WORDS, stem, stems, topic_words

#: Words that say that something is wrong, missing or not done.
STATES_PROBLEM = any_case(
    r"\b(?:fail(?:s|ed|ing|ure)?|broken|bugs?|errors?|missing|lacks?|crash\w*|hangs?|wrong|todo|pending|open|blocked|"
    r"(?:does|do|is|are|can|was|were|did|has|have)(?:n['’]t| not)|not (?:yet|work\w*)|no(?:t|ne)?|never|without|"
    r"can['’]t|cannot|still|problem|issue|flaky|leaks?)\b"
)

# -- Does an answer agree with what was said before it?

#: Maximum length of the beginning of an answer that is examined for agreement, in characters.
_MAX_ANSWER_CHARACTERS = 240

_AGREES = any_case(
    r"^\W*(?:yes|yeah|yep|yup|ok(?:ay)?|sure|right|correct|agreed?|exactly|indeed|perfect|great|good|nice|do (?:it|"
    r"that|so)|go (?:ahead|for it|with (?:it|that|this))|please do|sounds good|looks good|lgtm|makes sense|let['’]?s "
    r"(?:do|go with)|proceed|ship it|that(?:'s| is) (?:right|it|what i))\b"
)
_BUT = any_case(r"\b(?:but|however|except|although|instead|actually|wait|don['’]?t|not|no)\b")


def agrees(answer: str) -> bool:
    """Return True if a prompt agrees with what was said before it, without an objection."""
    first = answer.strip()[:_MAX_ANSWER_CHARACTERS]
    return bool(_AGREES.match(first)) and not _BUT.search(first)


# -- Decide by wording whether two statements are about the same thing and differ in a single value.
#
# Two statements with the same words and different numbers may be about two things ("gate 12 …", "gate 13 …"), so
# statements are compared word by word. The newer one changes what the older one says only if they differ in a single
# place, if that place is in the predicate and not in the name of the subject, and if neither is limited to something
# that the other doesn't mention.

_WORD = lazy_regex(r"[A-Za-z_][\w+#/-]*(?:\.[A-Za-z]\w*)*|\d[\w.,:%]*\w|\d%?|=")
#: The start of an explanation.
_EXPLANATION = lazy_regex(r"[;(]|\.(?:\s|$)|,? (?:because|since|so that)\b")
NUMBER_WORDS = frozenset("one two three four five six seven eight nine ten eleven twelve once twice".split())
_DAYS = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays "
    "sundays".split()
)
_UNITS = frozenset(
    "s ms us ns sec min h d kb mb gb tb kib mib gib px pt fps rpm hz khz mhz ghz second seconds minute minutes hour "
    "hours day days week weeks month months year years time times percent thread threads worker workers request "
    "requests byte bytes character characters line lines retry retries utc am pm euro euros dollar dollars usd "
    "eur".split()
)
#: Words that only indicate that something changed.
_CHANGES = any_case(
    r"(?:rais|lower|increas|decreas|bump|renam|switch|mov|migrat|chang|actual|updat|correct|revis|reconsider|reduc|"
    r"extend)\w*"
)
_QUANTITY = any_case(r"v?\d[\d.,:_]*(?:%|[a-z]{1,3})?")
_ENVIRONMENTS = frozenset("production prod staging stage dev testing qa preview sandbox ci canary beta".split())
_REGION = any_case(r"[a-z]{2,}(?:-[a-z]+)*-\d[a-z]?|eu|us|apac|emea")
_ARTICLES = frozenset("the a an our my your all each every any its this that".split())
_NARROWING = frozenset("for of in on at from per by within under inside".split())
#: Nouns that are identified by the number after them: another number means another thing.
_NUMBERED = any_case(
    r"(?:gate|ticket|issue|pr|bug|step|chapter|section|part|node|host|rack|shard|phase|sprint|milestone|migration|"
    r"room|row|column|task|case|channel|slot|lane|zone|pod|replica|machine|server|customer|tenant|team|group|job|"
    r"batch|level|tier|layer|line|page|table|figure|id|no|nr|number|unit|device|printer|floor|building|door|bay|dock|"
    r"platform|track)s?"
)
#: Words that separate a subject from its predicate.
_PREDICATE = any_case(
    r"is|are|was|were|be|=|has|have|had|runs?|listens?|expires?|lasts?|takes?|uses?|lives?|goes|go|costs?|returns?|"
    r"must|should|can|may|will|wants?|needs?|gets?|holds?|keeps?|kept|supports?|allows?|accepts?|starts?|begins?|"
    r"stops?|ends?|retry|retries|wait|waits|limit|limits|set|sets|sits?|stands?|stays?|defaults?|equals?|sends?|"
    r"serves?|binds?|release[sd]?|deploys?|prefers?|at|to|after|every|until"
)


_NEGATION = any_case(r"\b(?:never|not|(?:do|is|wo|ca)n['’]?t|do not|no|avoid|without|stop|cannot)\b")


@dataclass(frozen=True, slots=True)
class _Token:
    """A content word of a statement."""

    text: str
    stem: str
    #: The narrowing preposition right before it; "" if there is none.
    preposition: str
    #: True if it is part of the predicate: a word that may separate the subject from it comes before.
    is_said: bool

    @property
    def is_quantity(self) -> bool:
        return bool(_QUANTITY.fullmatch(self.text)) or self.text in NUMBER_WORDS or self.text in _DAYS

    @property
    def is_place(self) -> bool:
        """True for an environment or a region; a different one means a different subject."""
        return self.text in _ENVIRONMENTS or bool(_REGION.fullmatch(self.text))


#: Something that is the only one of its kind: "pnpm as the package manager".
_IN_A_ROLE = any_case(r"\b(?P<one>[\w.+#@/-]+) as (?:the|our|my|your) \w")


def gives_another_value(newer: str, older: str) -> bool:
    """Return True if both name a quantity of the same subject, or the only thing of a kind, and they differ in that."""
    new, old = _difference(newer, older)
    if len(new) == len(old) == 1 and not (new[0].is_place or old[0].is_place):
        roles = [_IN_A_ROLE.search(newer), _IN_A_ROLE.search(older)]
        if [role and role["one"].lower() for role in roles] == [new[0].text, old[0].text]:
            return True
    if not (new and old and all(token.is_quantity for token in old) and any(token.is_quantity for token in new)):
        return False
    return _is_one_change(new, old, newer, older)


def is_denied(first: str, second: str) -> bool:
    """Return True if one of two statements is negated and the other is not."""
    return bool(_NEGATION.search(first)) != bool(_NEGATION.search(second))


def says_opposite(newer: str, older: str) -> bool:
    """Return True if both have the same content words. Call this only if one statement is known to deny the other."""
    return _difference(newer, older) == ([], [])


def changes_value(newer: str, older: str) -> bool:
    """Return True if a statement that announces a change differs from the older one in a single place."""
    new, old = _difference(newer, older)
    return bool(new) and _is_one_change(new, old, newer, older)


def has_same_subject(newer: str, older: str, given_up: frozenset[str]) -> bool:
    """Return True if a statement that abandons something is about the same subject as an older statement.

    The newer statement may lack some of the older one's words, because a replacement may need other words. But if the
    older one is limited to something (an environment, a region, "of billing", "the mail service"), the newer one must
    not be limited to something else.
    """
    new, old = _tokens(newer), _tokens(_main_clause(older))
    said, known = {token.stem for token in new}, {token.stem for token in old}
    missing = [t for t in old if t.stem not in said | given_up and not t.is_quantity]
    shared = [t for t in old if t.stem in said]
    if any(token.is_place for token in missing) or len(missing) > len(shared):
        return False
    strange = [token for token in new if token.stem not in known]
    if {t.preposition for t in missing if t.preposition} & {t.preposition for t in strange if t.preposition}:
        return False
    return not _modified(missing, old) & _modified(strange, new) - given_up


def _modified(some: Sequence[_Token], among: Sequence[_Token]) -> set[str]:
    """Return the stems of the words in ``among`` that directly follow one of the given words."""
    wanted = frozenset(some)
    return {following.stem for token, following in pairwise(among) if token in wanted}


def _is_one_change(new: Sequence[_Token], old: Sequence[_Token], newer: str, older: str) -> bool:
    """Return True if the statements differ in a single place, and only in what they say about their subject."""
    if not (_is_contiguous(new, _telling(newer)) and _is_contiguous(old, _telling(older))):
        return False
    if any(token.is_place for token in (*new, *old)):
        return False
    if any(not token.is_said for token in old) or not new[0].is_said:
        return False
    narrowed = {token.preposition for token in old if token.preposition and not token.is_quantity}
    return all(token.preposition in narrowed for token in new if token.preposition and not token.is_quantity) and (
        bool(new) or not narrowed
    )


def _difference(newer: str, older: str) -> tuple[list[_Token], list[_Token]]:
    """Return the informative words of each statement that the other one lacks."""
    new, old = _telling(newer), _telling(older)
    new_stems, old_stems = {token.stem for token in new}, {token.stem for token in old}
    return [t for t in new if t.stem not in old_stems], [t for t in old if t.stem not in new_stems]


def _is_contiguous(some: Sequence[_Token], among: Sequence[_Token]) -> bool:
    wanted = frozenset(some)
    places = [place for place, token in enumerate(among) if token in wanted]
    return not places or places[-1] - places[0] + 1 == len(places)


# Cached, because the same few sentences are compared again and again.
@lru_cache_by_text(1024)
def _telling(text: str) -> tuple[_Token, ...]:
    """Return the informative words of the main clause, without units and words that only indicate a change."""
    return tuple(t for t in _tokens(_main_clause(text)) if t.text not in _UNITS and not _CHANGES.fullmatch(t.text))


def _main_clause(text: str) -> str:
    found = _EXPLANATION.search(text)
    return text if found is None or found.start() < 8 else text[: found.start()]


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    raw = [word.rstrip(".,:") for word in _WORD.findall(text.replace(": ", " = "))]
    words = [word.lower() for word in raw]
    is_said = False
    for place, word in enumerate(words):
        before = place - 1
        while before >= 0 and words[before] in _ARTICLES:
            before -= 1
        previous = words[before] if before >= 0 else ""
        is_letter = place > 0 and len(word) == 1 and raw[place].isupper() and word != "i"
        is_telling = word != "=" and (word not in STOP_WORDS or word in NUMBER_WORDS)
        if is_letter or (is_telling and (len(word) > 1 or word.isdigit())):
            is_named = bool(_QUANTITY.fullmatch(word)) and bool(_NUMBERED.fullmatch(previous))
            preposition = previous if previous in _NARROWING else ""
            tokens.append(_Token(word, stem(word), preposition, is_said and not is_named))
        is_said = is_said or bool(_PREDICATE.fullmatch(word)) or bool(_CHANGES.fullmatch(word))
    return tokens


# -- Compare memories with what the user's own files (CLAUDE.md, rules, auto memory) say.

#: A statement says the same thing as a text if it contains this share of the text's informative words.
MIN_SAID_SHARE = 0.75
#: A text with fewer informative words is matched only by a statement with the same words.
MIN_WORDS = 3
#: Two statements can contradict each other only if they share this part of the shorter one's informative words.
MIN_SHARED = 0.5
#: Maximum length of a quoted statement, in characters.
MAX_QUOTE_CHARACTERS = 90

_NUMBER = lazy_regex(r"\d+(?:[.:]\d+)*")


@dataclass(frozen=True, slots=True)
class _Line:
    """A statement in a file."""

    name: str
    text: str
    stems: frozenset[str]
    numbers: frozenset[str]


class StandingText:
    """The statements of files, indexed by their words. Immutable."""

    def __init__(self, files: Iterable[tuple[str, str]]) -> None:
        """Index ``(name, text)`` of each file."""
        self._lines: list[_Line] = []
        self._by_stem: dict[str, list[int]] = {}
        for name, text in files:
            for statement in split(text):
                own = stems(topic_words(statement.text))
                if not own:
                    continue
                around = own | stems(topic_words(f"{statement.topic} {statement.lead}"))
                for word in around:
                    self._by_stem.setdefault(word, []).append(len(self._lines))
                numbers = frozenset(_NUMBER.findall(statement.text))
                self._lines.append(_Line(name, statement.text, own, numbers))

    def file_saying(self, text: str) -> str:
        """Return the name of a file that says the same thing as a text; "" if there is none."""
        if not self._lines:
            return ""
        wanted, numbers = stems(topic_words(plain(text))), frozenset(_NUMBER.findall(text))
        for line in self._near(wanted, MIN_SAID_SHARE * len(wanted)):
            is_same = len(wanted) >= MIN_WORDS or line.stems == wanted
            if is_same and numbers <= line.numbers and not is_denied(text, line.text):
                return line.name
        return ""

    def contradicting(self, text: str) -> str:
        """Return a file's statement that contradicts a text, such as ``CLAUDE.md: use pnpm``; "" if there is none."""
        if not self._lines:
            return ""
        wanted = stems(topic_words(plain(text)))
        for line in self._near(wanted, 1):
            if len(wanted & line.stems) < MIN_SHARED * min(len(wanted), len(line.stems)):
                continue
            is_opposite = is_denied(text, line.text) and says_opposite(text, line.text)
            if is_opposite or gives_another_value(text, line.text):
                quote = line.text if len(line.text) <= MAX_QUOTE_CHARACTERS else f"{line.text[:MAX_QUOTE_CHARACTERS]}…"
                return f"{line.name}: {quote}"
        return ""

    def _near(self, wanted: frozenset[str], at_least: float) -> Sequence[_Line]:
        """Return the statements with at least this many of the wanted stems, those with the most first."""
        counts = Counter(number for stem in wanted for number in self._by_stem.get(stem, ()))
        return [self._lines[number] for number, count in counts.most_common() if count >= max(at_least, 1)]
