"""Parse the time that a question names: dates, months, "yesterday", "last week"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_DAY_MS = 86_400_000
_YEAR_DAYS = 365.2425
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: Month names that in lower case are usually other words.
_AMBIGUOUS_MONTHS = ("may", "mar", "march")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR = r"(?:,?\s+(?P<year>(?:19|20)\d\d))"
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)\b")
_MONTH_DAY = re.compile(rf"\b{_MONTH}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b{_YEAR}?", re.I)
_DAY_MONTH = re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}\b{_YEAR}?", re.I)
_MONTH_ONLY = re.compile(
    r"\b(?:(?P<part>early|start of|beginning of|mid(?:dle of)?|late|end of|last week of|last day of)[\s-]+)?"
    rf"(?<!\w){_MONTH}\b{_YEAR}?",
    re.I,
)
_AGO = re.compile(
    r"\b(?P<number>\d+|an?|one|two|three|four|five|six|seven|couple of|few)\s+(?P<unit>day|week|month|year)s?\s+ago\b",
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


@dataclass(frozen=True, slots=True)
class DateRange:
    """The time from ``start_ms`` up to, but without, ``stop_ms``; yearly if the question names no year."""

    start_ms: int
    stop_ms: int
    is_yearly: bool = False

    def distance_days(self, at_ms: float) -> float:
        """Return how far a time lies outside the range, in days; 0 inside."""
        if self.is_yearly:
            year = _YEAR_DAYS * _DAY_MS
            at_ms += round((self.start_ms - at_ms) / year) * year
        return max(self.start_ms - at_ms, at_ms - self.stop_ms, 0.0) / _DAY_MS

    def occurrences(self, now_ms: int, limit: int = 3) -> list[tuple[int, int]]:
        """Return start and stop in this year and earlier ones, the latest first; a range with a year occurs once.

        Occurrences of earlier years are a day longer at each end, since years differ in length.
        """
        if not self.is_yearly:
            return [(self.start_ms, self.stop_ms)]
        year = int(_YEAR_DAYS * _DAY_MS)
        occurrences = []
        for years_ago in range(limit + 1):
            margin = _DAY_MS if years_ago else 0
            start, stop = self.start_ms - years_ago * year, self.stop_ms - years_ago * year
            if start <= now_ms:
                occurrences.append((start - margin, stop + margin))
        return occurrences[:limit]


def parse_date_range(text: str, now_ms: int) -> DateRange | None:
    """Return the first time that ``text`` names; None if it names none."""
    return _parse_absolute(text, now_ms) or _parse_relative(text, now_ms)


def _parse_absolute(text: str, now_ms: int) -> DateRange | None:
    this_year = datetime.fromtimestamp(now_ms / 1000).year
    for pattern in (_ISO, _MONTH_DAY, _DAY_MONTH, _MONTH_ONLY):
        for match in pattern.finditer(text):
            date_range = _range_of_match(match, this_year)
            if date_range is not None:
                return date_range
    return None


def _range_of_match(match: re.Match[str], this_year: int) -> DateRange | None:
    groups = match.groupdict()
    name = groups["month"]
    if name in _AMBIGUOUS_MONTHS:
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


def _parse_relative(text: str, now_ms: int) -> DateRange | None:
    now = datetime.fromtimestamp(now_ms / 1000)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    lower = text.lower()
    if match := _AGO.search(lower):
        number = _NUMBERS.get(match["number"]) or int(match["number"])
        days = number * _UNIT_DAYS[match["unit"]]
        margin = max(1, days // 5)
        return _between(today - timedelta(days=days + margin), today - timedelta(days=days - margin))
    monday = today - timedelta(days=today.weekday())
    ranges = {
        "yesterday": (today - timedelta(days=1), today),
        "today": (today, today + timedelta(days=1)),
        "this morning": (today, today + timedelta(days=1)),
        "last night": (today - timedelta(days=1), today + timedelta(hours=6)),
        "last week": (monday - timedelta(days=7), monday),
        "this week": (monday, now + timedelta(days=1)),
        "last month": (today - timedelta(days=today.day + 30), today - timedelta(days=today.day - 1)),
        "this month": (today - timedelta(days=today.day - 1), now + timedelta(days=1)),
    }
    for words, (start, stop) in ranges.items():
        if re.search(rf"\b{words}\b", lower):
            return _between(start, stop)
    return None


def _between(start: datetime, stop: datetime) -> DateRange:
    return DateRange(int(start.timestamp() * 1000), int(stop.timestamp() * 1000))
