"""A search question: its filters, terms, names, date range and intent, parsed once."""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate

from engram.models.engine.transaction import Store
from engram.models.search.fulltext import Term, count_documents, document_counts
from engram.system.clock import DAY_MS
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


# -- Parse the time that a question names: dates, months, "yesterday", "last week".

#: Maximum number of years to search for a date that is given without a year.
_MAX_YEARS = 3
_YEAR_MS = 365.2425 * DAY_MS
#: The years in which such a date is searched for.
_FIRST_YEAR, _LAST_YEAR = 1971, 9_998
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: Month names that usually mean something else in lower case, unless a year or a day is next to them.
_AMBIGUOUS_MONTHS = ("may", "mar", "march")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR = r"(?:,?\s+(?P<year>(?:19|20)\d\d))"
_ISO = lazy_regex(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)\b")
_MONTH_DAY = lazy_regex(rf"\b{_MONTH}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b{_YEAR}?", re.I)
_DAY_MONTH = lazy_regex(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}\b{_YEAR}?", re.I)
_MONTH_ONLY = lazy_regex(
    r"\b(?:(?P<part>early|start of|beginning of|mid(?:dle of)?|late|end of|last week of|last day of)[\s-]+)?"
    rf"(?<!\w){_MONTH}\b{_YEAR}?",
    re.I,
)
_AGO = lazy_regex(
    r"\b(?P<number>\d{1,4}|an?|one|two|three|four|five|six|seven|couple of|few)\s+"
    r"(?P<unit>day|week|month|year)s?\s+ago\b",
    re.I,
)
_NUMBERS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "couple of": 2,
    "few": 3,
}
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
#: Maximum number of days ago that a time may be; an earlier one counts as this long ago.
_MAX_AGO_DAYS = 15_000


@dataclass(frozen=True, slots=True)
class DateRange:
    """The time from ``start_ms`` to ``stop_ms`` (exclusive), recurring every year if the question names no year."""

    start_ms: int
    stop_ms: int
    is_yearly: bool = False

    def distance_days(self, at_ms: float) -> float:
        """Return how far a time is outside the range, in days; 0 inside."""
        years = round((self.start_ms - at_ms) / _YEAR_MS) if self.is_yearly else 0
        start_ms, stop_ms = self._years_before(years)
        return max(start_ms - at_ms, at_ms - stop_ms, 0.0) / DAY_MS

    def occurrences(self, now_ms: int) -> list[tuple[int, int]]:
        """Return the start and the end of the range in this year and earlier ones, latest first; a range with a year
        occurs once.
        """
        if not self.is_yearly:
            return [(self.start_ms, self.stop_ms)]
        spans = map(self._years_before, range(_MAX_YEARS + 1))
        return [span for span in spans if span[0] <= now_ms][:_MAX_YEARS]

    def _years_before(self, years: int) -> tuple[int, int]:
        return _years_before(self.start_ms, years), _years_before(self.stop_ms, years)


@lru_cache(maxsize=64)
def _years_before(at_ms: int, years: int) -> int:
    """Return the same moment of an earlier year; for 29 February, 1 March of a year without that day."""
    moment = datetime.fromtimestamp(at_ms / 1000)
    year = min(max(moment.year - years, _FIRST_YEAR), _LAST_YEAR)
    try:
        earlier = moment.replace(year=year)
    except ValueError:
        earlier = moment.replace(year=year, month=3, day=1)
    return int(earlier.timestamp() * 1000)


def parse_date_range(text: str, now_ms: int, *, is_whole: bool = False) -> DateRange | None:
    """Return the first time that ``text`` names; None if there is none or, with ``is_whole``, any other text."""
    this_year = datetime.fromtimestamp(now_ms / 1000).year
    for pattern in (_ISO, _MONTH_DAY, _DAY_MONTH, _MONTH_ONLY):
        for match in pattern.finditer(text):
            if (not is_whole or match[0] == text) and (date_range := _range_of_match(match, this_year)):
                return date_range
    named = (found for words, found in _parse_relative(text, now_ms) if not is_whole or words == text.lower())
    return next(named, None)


DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS_AGO = lazy_regex(r"(\d{1,4})\s*(?:d|days?)(?:\s+ago)?")
_BEFORE_TIME = lazy_regex(r"^(?:(?:until|up to|in|on|the)\s+)+")
_WEEKS_AGO = lazy_regex(r"(\d{1,3})\s*(?:w|weeks?)(?:\s+ago)?")


def end_of_day(text: str, now_ms: int) -> int | None:
    """Return the last millisecond of the day or period that a person names; None if the text says anything else.

    Accepts what a question may name (yesterday, last week, march, 2026-11-05), weekdays, and forms such as ``3 days
    ago``, ``7d`` and ``2 weeks ago``. Without a year, this is the latest such period that has begun.
    """
    words = _BEFORE_TIME.sub("", " ".join(text.lower().split()))
    today = datetime.fromtimestamp(now_ms / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
    day = words.removeprefix("last ")
    days_ago: int | None = None
    if match := _DAYS_AGO.fullmatch(words):
        days_ago = int(match[1])
    elif match := _WEEKS_AGO.fullmatch(words):
        days_ago = 7 * int(match[1])
    elif len(day) >= 3 and (named := [number for number, name in enumerate(DAYS) if name.startswith(day)]):
        days_ago = (today.weekday() - named[0]) % 7 or (7 if words.startswith("last ") else 0)
    if days_ago is not None:
        return int((today + timedelta(days=1 - days_ago)).timestamp() * 1000) - 1
    # When capitalised, march and may are recognised as months.
    named_range = parse_date_range(words.title(), now_ms, is_whole=True)
    begun = [] if named_range is None else named_range.occurrences(now_ms)
    return begun[0][1] - 1 if begun else None


def _range_of_match(match: re.Match[str], this_year: int) -> DateRange | None:
    groups = match.groupdict()
    name = groups["month"]
    # "march 5" is a date, but "5 may" rather a number and a verb.
    is_dated = "day" in groups and (name != "may" or match.start("month") < match.start("day"))
    if name in _AMBIGUOUS_MONTHS and not (groups["year"] or is_dated):
        return None
    month = int(name) if name.isdigit() else _MONTHS.index(name[:3].lower()) + 1
    year = int(groups["year"] or this_year)
    try:
        if "day" in groups:
            start = datetime(year, month, int(groups["day"]))
            stop = start + timedelta(days=1)
        else:
            start, stop = _part_of_month(year, month, (groups.get("part") or "").lower())
    except ValueError:
        return None
    return DateRange(int(start.timestamp() * 1000), int(stop.timestamp() * 1000), is_yearly=not groups["year"])


def _part_of_month(year: int, month: int, part: str) -> tuple[datetime, datetime]:
    start = datetime(year, month, 1)
    stop = datetime(year + month // 12, month % 12 + 1, 1)
    if part in ("early", "start of", "beginning of"):
        return start, start + timedelta(days=10)
    if part.startswith("mid"):
        return start + timedelta(days=9), start + timedelta(days=21)
    if part == "last day of":
        return stop - timedelta(days=1), stop
    if part:
        return stop - timedelta(days=9), stop
    return start, stop


def _parse_relative(text: str, now_ms: int) -> Iterator[tuple[str, DateRange]]:
    """Yield each time that is named relative to now, with the words that name it."""
    now = datetime.fromtimestamp(now_ms / 1000)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    lower = text.lower()
    if match := _AGO.search(lower):
        number = _NUMBERS.get(match["number"]) or int(match["number"])
        days = min(number * _UNIT_DAYS[match["unit"]], _MAX_AGO_DAYS)
        margin = max(1, days // 5)
        yield match[0], _between(today - timedelta(days=days + margin), today - timedelta(days=days - margin))
    monday, month = today - timedelta(days=today.weekday()), today.replace(day=1)
    ranges = {
        "yesterday": (today - timedelta(days=1), today),
        "today": (today, today + timedelta(days=1)),
        "this morning": (today, today + timedelta(days=1)),
        "last night": (today - timedelta(days=1), today + timedelta(hours=6)),
        "last week": (monday - timedelta(days=7), monday),
        "this week": (monday, now + timedelta(days=1)),
        "last month": ((month - timedelta(days=1)).replace(day=1), month),
        "this month": (month, now + timedelta(days=1)),
    }
    for words, (start, stop) in ranges.items():
        if re.search(rf"\b{words}\b", lower):
            yield words, _between(start, stop)


def relative_time(text: str, now_ms: int) -> DateRange | None:
    """Return the first time that a text names relative to now, such as "last week"; None if there is none.

    A text that is about such a time was written then, unlike one about a date, which may have been planned or recalled.
    """
    return next((found for _, found in _parse_relative(text, now_ms)), None)


def _between(start: datetime, stop: datetime) -> DateRange:
    return DateRange(int(start.timestamp() * 1000), int(stop.timestamp() * 1000))


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
