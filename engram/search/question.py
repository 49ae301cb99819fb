"""A search question: its filters, terms, names, date range and intent, parsed once."""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from engram.models.engine.transaction import Store
from engram.models.search.fulltext import Term, count_documents, document_counts
from engram.search.named_times import DateRange, parse_date_range
from engram.system.lazy_regex import lazy_regex
from engram.text.words import (
    MIN_STEM_CHARS,
    coverage_stem,
    is_unspaced,
    names_of,
    proper_names_of,
    question_words_of,
    terms_of,
)

# -- The question as it is asked.


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    #: Search only this project and global memories; None searches all.
    project_id: int | None = None
    #: Maximum number of hits; in an answer with several kinds of hits, the maximum number of memories.
    limit: int = 5
    #: Maximum number of hits in an answer, of any kind; None if only the word budget limits it.
    max_hits: int | None = None
    #: When the question is asked, in milliseconds since 1970; None means now. "Yesterday" is relative to this time.
    now_ms: int | None = None
    #: Paths of the files being worked on, as written.
    files: tuple[str, ...] = ()
    #: The asker's branch; "" if unknown. Memories of other, unmerged branches rank lower.
    branch: str = ""
    #: A command that was run, and the first line of its error; "" for none.
    command: str = ""
    error: str = ""
    #: Return only passages and notes that contain all of these phrases, as written.
    phrases: tuple[str, ...] = ()
    #: Also return weak matches, up to ``limit``, for a caller that judges relevance itself.
    thorough: bool = False

    def __post_init__(self) -> None:
        if not self.text.isascii():
            # A letter's accents may be separate characters, as in file names on macOS; İ has no single-letter lower
            # case.
            text = unicodedata.normalize("NFC", self.text).replace("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "I")
            object.__setattr__(self, "text", text)


# -- Recognise what a question asks for, and the traits of a text that may answer it, by regular expressions. Pure.

_TIME = lazy_regex(
    r"\b(?:yesterday|today|tomorrow|tonight|last|next|ago|week|weekend|month|year|monday|tuesday|wednesday|thursday"
    r"|friday|saturday|sunday|january|february|march|april|june|july|august|september|october|november|december|summer"
    r"|winter|spring|fall|morning|recently|soon|since|20\d\d)\b",
    re.I,
)
_NUMBER = lazy_regex(r"\d")
#: ``/name.``, ``name()`` or ``one_two``. Each alternative begins with a punctuation mark, which is rare in text, and
#: checks the letter before it by lookbehind.
_CODE = lazy_regex(r"/\w+\.|\((?<=\w\()\)|_(?<=\w_)\w")
#: Words that indicate an instruction, in lower case.
_DIRECTIVE = lazy_regex(
    r"\b(?:always|never|don'?t|do not|prefer|instead|should|must|want|need to|make sure|please|only|avoid|rather"
    r"|no need|stop|keep|use|let'?s|can you|i'd like|remove|not)\b"
)
_SPEAKER = lazy_regex(r"([A-Z][\w .'-]{0,30}): ")
#: Maximum length of what ``_SPEAKER`` matches.
_SPEAKER_CHARACTERS = 33
#: Words that indicate a change, in lower case.
_CHANGE = lazy_regex(
    r"\b(?:instead|no longer|switch(?:ed|ing)?|replac\w+|renam\w+|remov\w+|dropp?\w*|moved?|moving|actually|rather than"
    r"|from now on|chang\w+|revert\w*|roll(?:ed)? back|go(?:ing)? back|went back|simplif\w+|previously|used to"
    r"|any ?more|obsolete|deprecat\w+|invert\w*|merged?|was changed|old"
    r"|now (?:uses?|is|only|has|shows?|goes|counts?|lives?|resolves?))\b"
)

_WHEN = lazy_regex(r"\b(?:when|what (?:time|date|day|month|year)|how long|since)\b", re.I)
_HOW_MANY = lazy_regex(
    r"\b(?:how (?:many|much|often|long|big|old)|number|which (?:port|version|percentage)|count|limit|threshold)\b", re.I
)
_NOW = lazy_regex(
    r"\b(?:now|nowadays|these days|current(?:ly)?|today|still|any ?more|no longer|final(?:ly)?|ultimately|end(?:ed)? up"
    r"|latest|going forward|in the end|out of the box|by default|after all|settle|eventually)\b",
    re.I,
)
_RULE = lazy_regex(
    r"\b(?:should (?:we|i|it)|can i|may i|am i|want|prefer|like|ask(?:s|ed)?|allowed|insist\w*|rule|convention|policy"
    r"|style|belong|supposed|expect\w*|wish|demand\w*|tell|told|said|say|which .* did i|do i|did i|who)\b",
    re.I,
)
_AFTER = lazy_regex(r"\b(?:after(?:wards?)?|next|then|follow(?:ed|ing|s)?|once|since|subsequently|later)\b", re.I)
_BEFORE = lazy_regex(r"\b(?:before|prior to|until|leading up|preced\w+|ahead of)\b", re.I)
_LAST = lazy_regex(
    r"\b(?:last|final(?:ly)?|end|clos(?:e|ing)|ended|left|remain\w*|outcome|stand|evening|night|finish\w*|wrap\w*)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class TextTraits:
    """Traits of a passage, each 0 or 1 so that it can be weighted."""

    is_question: float
    has_time: float
    has_number: float
    has_code: float
    #: The user gives an instruction.
    is_directive: float
    #: The text says that something has changed.
    is_change: float
    #: The speaker named at the start of a chat line, in lower case; "" for none.
    speaker: str


@dataclass(frozen=True, slots=True)
class QueryIntent:
    """What a question asks for according to its wording, each 0 or 1."""

    wants_time: float
    wants_number: float
    #: Asks for the current state.
    wants_latest: float
    #: Asks for a rule, a wish or an instruction.
    wants_rule: float
    #: Asks what came after or before the time that the question names, or what came last in it.
    wants_after: float
    wants_before: float
    wants_last: float


def parse_speaker(text: str) -> str:
    """Return the speaker named at the start of a chat line, in lower case; "" for none."""
    match = _SPEAKER.match(text) if ": " in text[:_SPEAKER_CHARACTERS] else None
    return match[1].lower() if match else ""


def text_traits(text: str, *, is_user: bool, intent: QueryIntent) -> TextTraits:
    """Return the traits of a passage. Traits that matter only to some questions are 0 for all others."""
    low = text.lower()
    return TextTraits(
        is_question=float(text.endswith("?")),
        has_time=float(intent.wants_time > 0 and bool(_TIME.search(text))),
        has_number=float(intent.wants_number > 0 and bool(_NUMBER.search(text))),
        has_code=float("`" in text or bool(_CODE.search(text))),
        is_directive=float(is_user and bool(_DIRECTIVE.search(low))),
        is_change=float(bool(_CHANGE.search(low))),
        speaker=parse_speaker(text),
    )


def parse_intent(text: str) -> QueryIntent:
    wants_after = bool(_AFTER.search(text))
    return QueryIntent(
        wants_time=float(bool(_WHEN.search(text))),
        wants_number=float(bool(_HOW_MANY.search(text))),
        wants_latest=float(bool(_NOW.search(text))),
        wants_rule=float(bool(_RULE.search(text))),
        wants_after=float(wants_after),
        wants_before=float(bool(_BEFORE.search(text)) and not wants_after),
        wants_last=float(bool(_LAST.search(text))),
    )


# -- A question parsed once, for every stage of the search.


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A question in the form that the ranking uses."""

    #: The words that are not stop words, without duplicates.
    terms: tuple[str, ...]
    #: Paths, symbols, flags and quoted code, in lower case.
    names: tuple[str, ...]
    #: The time that the question names; None if it names none.
    date_range: DateRange | None
    now_ms: int
    intent: QueryIntent
    #: Every word, in lower case.
    words: frozenset[str] = frozenset()
    #: Words capitalised like the name of a person, product or place, converted to lower case.
    proper_names: tuple[str, ...] = ()


def parse_query(query: Query, now_ms: int) -> ParsedQuery:
    """Parse a question. The words of its files, command and error also count as terms and names."""
    context = " ".join([*query.files, query.command, query.error]).strip()
    text = f"{query.text}\n{context}" if context else query.text
    return ParsedQuery(
        terms=tuple(terms_of(text)),
        names=tuple(names_of(text)),
        date_range=parse_date_range(query.text, now_ms),
        now_ms=now_ms,
        intent=parse_intent(query.text),
        words=frozenset(question_words_of(text)),
        proper_names=tuple(proper_names_of(query.text)),
    )


# -- The share of a question's terms that a text contains, weighted by rarity. Pure.

_LETTERS_BEFORE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
#: Minimum weight of a term, such as one that occurs in every row.
_MIN_WEIGHT = 0.01


class Coverage:
    """The stems of a question's terms with their weights, for matching against many texts."""

    def __init__(self, terms: Sequence[str], counts: Mapping[str, int], total: int) -> None:
        """Weight each term by its inverse document frequency, as BM25 does.

        Args:
            counts: in how many of the ``total`` rows each term occurs; a term that never occurs has no weight.
        """
        #: Terms that occur in no row.
        self.unknown_terms = frozenset(term for term in terms if not counts.get(term, 0))
        self._weights: dict[str, float] = {}
        for term in terms:
            count = counts.get(term, 0)
            if count:
                stem = coverage_stem(term)
                weight = math.log(1 + (total - count + 0.5) / (count + 0.5)) if total > count else 0.0
                self._weights[stem] = max(weight, self._weights.get(stem, 0.0), _MIN_WEIGHT)
        self._total_weight = sum(self._weights.values()) or 1.0
        self._unknown_weight = len(self.unknown_terms) * math.log(1 + (total + 0.5) / 0.5)
        #: Words in scripts that use no spaces, which may occur anywhere in a run of letters.
        self._unspaced = [stem for stem in self._weights if is_unspaced(stem)]
        self._spaced = [stem for stem in self._weights if not is_unspaced(stem)]
        #: Cache: text → its stems. An answer compares the same texts several times.
        self._known: dict[str, frozenset[str]] = {}

    def stems_in(self, text: str) -> frozenset[str]:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self.stems_in_each([text])[0]
        return known

    def stems_in_each(self, texts: Sequence[str]) -> list[frozenset[str]]:
        """Return the stems in each of many texts, by searching the concatenated texts once for each stem.

        A stem counts only at the beginning of a word, and not where a longer stem matches.
        """
        lows = [text.lower() for text in texts]
        whole = "\n".join(lows)
        spots = sorted([(at, -len(stem), stem) for stem in self._spaced for at in _places_of(stem, whole)])
        ends = list(accumulate(len(low) + 1 for low in lows))
        found: list[set[str]] = [set() for _ in lows]
        for stem in self._unspaced:
            for number, low in enumerate(lows):
                if stem in low:
                    found[number].add(stem)
        number = stop = 0
        for at, size, stem in spots:
            if at >= stop:
                stop = at - size
                while at >= ends[number]:
                    number += 1
                found[number].add(stem)
        return list(map(frozenset, found))

    def share(self, stems: frozenset[str]) -> float:
        """Return the weight of ``stems`` as a share of the question's total, from 0 to 1."""
        return sum(self._weights[stem] for stem in stems) / self._total_weight

    def share_of_all(self, stems: frozenset[str]) -> float:
        """Return the same share, counting a term that occurs in no row as the rarest of all."""
        return sum(self._weights[stem] for stem in stems) / (self._total_weight + self._unknown_weight)


def _places_of(stem: str, text: str) -> list[int]:
    """Return the positions of words that begin with a stem; a short stem must be the whole word.

    Letters of scripts without spaces may follow a word directly.
    """
    places, size = [], len(stem)
    at = text.find(stem)
    while at >= 0:
        if not at or text[at - 1] not in _LETTERS_BEFORE:
            after = text[at + size : at + size + 1] if size < MIN_STEM_CHARS else ""
            if not after or not (after.isalnum() or after == "_") or is_unspaced(after):
                places.append(at)
        at = text.find(stem, at + 1)
    return places


def coverage_of_words(question: str) -> Coverage:
    """Return the coverage of a question whose terms all have the same weight."""
    terms = terms_of(question)
    return Coverage(terms, dict.fromkeys(terms, 1), 2)


def coverage_of_question(store: Store, question: str) -> Coverage:
    """Return the coverage of a question whose terms are weighted by their rarity in passages."""
    terms = terms_of(question)
    total = count_documents(store, "passage_fts")
    return Coverage(terms, document_counts(store, "passage_fts", terms, total) if terms else {}, total)


# -- Select the few rarest terms for a query of a text index.

#: Maximum number of terms in a query of a text index.
MAX_TERMS = 12
#: In a large index, terms in more than this share of the rows are left out if there are rarer ones.
MAX_TERM_SHARE = 0.05
#: Likewise for terms in more than this many rows.
MAX_TERM_ROWS = 40_000
#: An index with more rows than this is large; the number of rows scored in it is limited.
LARGE_INDEX_ROWS = 20_000
#: In a large index, roughly how many rows single terms may match in total; scoring a row takes a microsecond.
MAX_SINGLE_TERM_ROWS = 8_000
#: Maximum number of terms whose counts are cached.
_MAX_CACHED_TERMS = 20_000
#: The cache is dropped when the index has grown by this factor.
_MAX_GROWTH = 1.1


@dataclass(slots=True)
class TermCounts:
    """Caches in how many rows of a text index each term occurs, until the index has grown by a tenth."""

    #: The text index: passage_fts, episode_fts or note_fts.
    table: str
    _counts: dict[str, int] = field(default_factory=dict)
    _total: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, store: Store, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return the number of rows with each term, and the total number of rows."""
        total = count_documents(store, self.table)
        with self._lock:
            if total > self._total * _MAX_GROWTH or total < self._total or len(self._counts) > _MAX_CACHED_TERMS:
                self._counts, self._total = {}, total
            known = {term: self._counts[term] for term in terms if term in self._counts}
        missing = [term for term in terms if term not in known]
        if missing:
            known |= document_counts(store, self.table, missing, total)
            with self._lock:
                self._counts |= {term: known.get(term, 0) for term in missing}
        return {term: known.get(term, 0) for term in terms}, total


def select_terms(terms: Sequence[str], counts: Mapping[str, int], total: int) -> list[Term]:
    """Return at most ``MAX_TERMS`` terms that occur in the index, rarest first.

    In a large index, common terms are left out if there are rarer ones. The rarest terms match on their own until they
    account for ``MAX_SINGLE_TERM_ROWS`` rows; the rest match only in pairs, with both terms in one row.
    """
    known = sorted((term for term in terms if counts.get(term, 0) > 0), key=lambda term: counts[term])
    if total <= LARGE_INDEX_ROWS:
        return list(known[:MAX_TERMS])
    rare = [term for term in known if counts[term] <= min(MAX_TERM_SHARE * total, MAX_TERM_ROWS)] or known[:1]
    rare = rare[:MAX_TERMS]
    rows, single = 0, 0
    while single < len(rare) and (not single or rows + counts[rare[single]] <= MAX_SINGLE_TERM_ROWS):
        rows += counts[rare[single]]
        single += 1
    paired = rare[single:]
    return [*rare[:single], *zip(paired[::2], paired[1::2], strict=False)]
