"""Parse the time that a question or a person names: dates, months, weekdays, "last week"; also in German."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from engram.system.clock import DAY_MS
from engram.system.lazy_regex import lazy_regex

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
#: What makes a number with hyphens or dots a version or the number of a document instead of a date.
_NOT_NUMBER = r"(?<![\w.-])(?<!version )(?<!versions )(?<!release )"
_ISO_MONTH = lazy_regex(rf"{_NOT_NUMBER}(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)\b(?!-)", re.I)
_DOTTED = lazy_regex(rf"{_NOT_NUMBER}(?P<day>\d{{1,2}})\.\s?(?P<month>\d{{1,2}})\.\s?(?P<year>(?:19|20)\d\d)\b", re.I)
_ISO = lazy_regex(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)\b")
_MONTH_DAY = lazy_regex(rf"\b{_MONTH}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b{_YEAR}?", re.I)
_DAY_MONTH = lazy_regex(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}\b{_YEAR}?", re.I)
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


#: German words for times → English ones; only words that no English text contains.
_GERMAN = {
    "vorgestern": "day before yesterday",
    "gestern": "yesterday",
    "heute": "today",
    **{f"letzte{ending}": "last" for ending in ("", "n", "r", "s")},
    **{f"diese{ending}": "this" for ending in ("", "n", "r", "s")},
    **{f"tag{ending}": "days" for ending in ("e", "en")},
    **{"woche": "week", "wochen": "weeks", "monat": "month", "monate": "months", "monaten": "months"},
    **{"jahr": "year", "jahre": "years", "jahren": "years"},
    **{"januar": "january", "februar": "february", "märz": "march", "juni": "june", "juli": "july"},
    **{"oktober": "october", "dezember": "december"},
    **{"montag": "monday", "dienstag": "tuesday", "mittwoch": "wednesday", "donnerstag": "thursday"},
    **{"freitag": "friday", "samstag": "saturday", "sonnabend": "saturday", "sonntag": "sunday"},
}
_GERMAN_WORD = lazy_regex(rf"\b(?:{'|'.join(sorted(_GERMAN, key=len, reverse=True))})\b", re.I)
_GERMAN_AGO = lazy_regex(r"\bvor\s+(\d{1,4}|eine[mnr])\s+(tag|woche|monat|jahr)(?:en?|n)?\b", re.I)
#: The German name of May where it can't be the Italian word for "never".
_GERMAN_MAY = lazy_regex(
    r"^mai$|\b(?:(?P<before>(?:im|ende|anfang|mitte|seit|bis|letzten|diesen|\d{1,2}\.?)\s+)mai\b|mai(?=\s+(?:19|20)\d\d\b))",
    re.I,
)
_UNITS = {"tag": "day", "woche": "week", "monat": "month", "jahr": "year"}


def _in_english(text: str) -> str:
    """Return a text with its German words for times in English."""

    def ago(found: re.Match[str]) -> str:
        return f"{found[1] if found[1].isdigit() else 'a'} {_UNITS[found[2].lower()]} ago"

    def word(found: re.Match[str]) -> str:
        english = _GERMAN[found[0].lower()]
        return english.capitalize() if found[0][0].isupper() else english

    text = _GERMAN_MAY.sub(lambda found: f"{found['before'] or ''}May", text)
    return _GERMAN_WORD.sub(word, _GERMAN_AGO.sub(ago, text))


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
    text = _in_english(text)
    this_year = datetime.fromtimestamp(now_ms / 1000).year
    for pattern in (_ISO, _DOTTED, _ISO_MONTH, _MONTH_DAY, _DAY_MONTH, _MONTH_ONLY):
        for match in pattern.finditer(text):
            if (not is_whole or match[0] == text) and (date_range := _range_of_match(match, this_year)):
                return date_range
    named = (found for words, found in _parse_relative(text, now_ms) if not is_whole or words == text.lower())
    return next(named, None)


DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS_AGO = lazy_regex(r"(\d{1,4})\s*(?:d|days?)(?:\s+ago)?")
_BEFORE_TIME = lazy_regex(r"^(?:(?:in|on|the|im|am|zum)\s+)+")
#: A number in words before "days ago": exact here, approximate in a question.
_COUNTED = lazy_regex(r"^(?:an?|one|two|three|four|five|six|seven)(?= (?:days?|weeks?) ago$)")
#: Words before the end of a period that has no beginning.
UNTIL = lazy_regex(r"^\s*+(?:until|up to|bis)\s++", re.I)
_WEEKS_AGO = lazy_regex(r"(\d{1,3})\s*(?:w|weeks?)(?:\s+ago)?")


def named_period(text: str, now_ms: int) -> DateRange | None:
    """Return the day or longer period that a person names; None if the text says anything else.

    Accepts what a question may name (yesterday, last week, march, 2026-11-05), weekdays, and forms such as ``3 days
    ago``, ``7d`` and ``2 weeks ago``. Without a year, this is the latest such period that has begun. "Until" such a
    period means all the time up to its end: from 0.
    """
    if until := UNTIL.match(text):
        period = named_period(text[until.end() :], now_ms)
        return period and DateRange(0, period.stop_ms)
    words = _BEFORE_TIME.sub("", " ".join(_in_english(text).lower().split()))
    words = _COUNTED.sub(lambda number: str(_NUMBERS[number[0]]), words)
    today = datetime.fromtimestamp(now_ms / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
    is_last = words.startswith("last ")
    day = words.removeprefix("last ").removeprefix("this ")
    days_ago: int | None = None
    if match := _DAYS_AGO.fullmatch(words):
        days_ago = int(match[1])
    elif match := _WEEKS_AGO.fullmatch(words):
        days_ago = 7 * int(match[1])
    elif len(day) >= 3 and (named := [number for number, name in enumerate(DAYS) if name.startswith(day)]):
        days_ago = (today.weekday() - named[0]) % 7 or (7 if is_last else 0)
    elif words in ("last year", "this year"):
        # A question that names a whole year is hardly about a time, so only this function reads it.
        return _between(datetime(today.year - is_last, 1, 1), datetime(today.year + (not is_last), 1, 1))
    if days_ago is not None:
        return _between(today - timedelta(days=days_ago), today - timedelta(days=days_ago - 1))
    # When capitalised, march and may are recognised as months.
    named_range = parse_date_range(words.title(), now_ms, is_whole=True)
    if named_range is None and is_last:
        named_range = parse_date_range(day.title(), now_ms, is_whole=True)
    begun = [] if named_range is None else named_range.occurrences(now_ms)
    # "Last July" is over.
    return next((DateRange(start, stop) for start, stop in begun if stop <= now_ms or not is_last), None)


def _range_of_match(match: re.Match[str], this_year: int) -> DateRange | None:
    groups = match.groupdict()
    name = groups["month"]
    # "march 5" is a date, but "5 may" rather a number and a verb.
    is_dated = "day" in groups and (name != "may" or match.start("month") < match.start("day"))
    if "day" in groups and f"{groups['day']}." in match[0]:
        is_dated = False  # "3. march on" may be a point of a list
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
        "day before yesterday": (today - timedelta(days=2), today - timedelta(days=1)),
        "yesterday": (today - timedelta(days=1), today),
        "today": (today, today + timedelta(days=1)),
        "this morning": (today, today + timedelta(days=1)),
        "last night": (today - timedelta(days=1), today + timedelta(hours=6)),
        "last week": (monday - timedelta(days=7), monday),
        "this week": (monday, now + timedelta(days=1)),
        "last month": ((month - timedelta(days=1)).replace(day=1), month),
        "this month": (month, now + timedelta(days=1)),
    }
    for number, name in enumerate(DAYS):
        day = today - timedelta(days=(today.weekday() - number) % 7 or 7)
        ranges[f"last {name}"] = (day, day + timedelta(days=1))
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
