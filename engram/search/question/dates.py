"""The time that a question names: dates, months, "yesterday", "last week"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_DAY_MS = 86_400_000
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: Month names that, in small letters, are mostly other words.
_ALSO_WORDS = ("may", "mar", "march")
_MONTH = r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
_YEAR = r"(?:,?\s+(?P<year>(?:19|20)\d\d))"
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)\b")
_MONTH_DAY = re.compile(rf"\b{_MONTH}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b{_YEAR}?", re.I)
_DAY_MONTH = re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}\b{_YEAR}?", re.I)
_MONTH_ONLY = re.compile(
    rf"\b(?:(?P<part>early|start of|beginning of|mid(?:dle of)?|late|end of|last week of|last day of)[\s-]+)?(?<!\w){_MONTH}\b{_YEAR}?",
    re.I,
)
_AGO = re.compile(
    r"\b(?P<number>\d+|an?|one|two|three|four|five|six|seven|couple of|few)\s+(?P<unit>day|week|month|year)s?\s+ago\b",
    re.I,
)
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
            "couple of": 2, "few": 3}  # fmt: skip
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


@dataclass(frozen=True, slots=True)
class Span:
    """A time from ``start_ms`` up to ``stop_ms``; without a year it comes back every year."""

    start_ms: int
    stop_ms: int
    is_yearly: bool = False

    def distance_days(self, at_ms: float) -> float:
        """How far a moment lies outside, in days; 0 inside."""
        if self.is_yearly:
            year = 365.2425 * _DAY_MS
            at_ms += round((self.start_ms - at_ms) / year) * year
        return max(self.start_ms - at_ms, at_ms - self.stop_ms, 0.0) / _DAY_MS

    def years(self, now_ms: int, many: int = 3) -> list[tuple[int, int]]:
        """Start and stop in this and earlier years for a yearly time, the latest first; else itself."""
        if not self.is_yearly:
            return [(self.start_ms, self.stop_ms)]
        year = int(365.2425 * _DAY_MS)
        back = [(self.start_ms - number * year, self.stop_ms - number * year) for number in range(many + 1)]
        return [(start - _DAY_MS, stop + _DAY_MS) if number else (start, stop)
                for number, (start, stop) in enumerate(back) if start <= now_ms][:many]  # fmt: skip


def span_of(text: str, now_ms: int) -> Span | None:
    """The first time named in ``text``; None where there is none."""
    return _dated(text, now_ms) or _relative(text, now_ms)


def _dated(text: str, now_ms: int) -> Span | None:
    this_year = datetime.fromtimestamp(now_ms / 1000).year
    for pattern in (_ISO, _MONTH_DAY, _DAY_MONTH, _MONTH_ONLY):
        for match in pattern.finditer(text):
            found = _span_of_match(match, this_year)
            if found is not None:
                return found
    return None


def _span_of_match(match: re.Match[str], this_year: int) -> Span | None:
    groups = match.groupdict()
    name = groups["month"]
    if name in _ALSO_WORDS:
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
    return Span(int(start.timestamp() * 1000), int(stop.timestamp() * 1000), is_yearly=not groups["year"])


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


def _relative(text: str, now_ms: int) -> Span | None:
    now = datetime.fromtimestamp(now_ms / 1000)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    lower = text.lower()
    if match := _AGO.search(lower):
        number = _NUMBERS.get(match["number"]) or int(match["number"])
        days = number * _UNIT_DAYS[match["unit"]]
        around = max(1, days // 5)
        return _between(today - timedelta(days=days + around), today - timedelta(days=days - around))
    monday = today - timedelta(days=today.weekday())
    spans = {
        "yesterday": (today - timedelta(days=1), today),
        "today": (today, today + timedelta(days=1)),
        "this morning": (today, today + timedelta(days=1)),
        "last night": (today - timedelta(days=1), today + timedelta(hours=6)),
        "last week": (monday - timedelta(days=7), monday),
        "this week": (monday, now + timedelta(days=1)),
        "last month": (today - timedelta(days=today.day + 30), today - timedelta(days=today.day - 1)),
        "this month": (today - timedelta(days=today.day - 1), now + timedelta(days=1)),
    }
    for words, (start, stop) in spans.items():
        if re.search(rf"\b{words}\b", lower):
            return _between(start, stop)
    return None


def _between(start: datetime, stop: datetime) -> Span:
    return Span(int(start.timestamp() * 1000), int(stop.timestamp() * 1000))
