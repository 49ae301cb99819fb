"""The time that a question names."""

from __future__ import annotations

from datetime import datetime

import pytest

from engram.search.named_times import parse_date_range

NOW = int(datetime(2026, 2, 20, 12).timestamp() * 1000)


def at(*parts: int) -> int:
    return int(datetime(*parts).timestamp() * 1000)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("What did we do on 2026-01-23?", at(2026, 1, 23, 9), at(2026, 1, 25, 9)),
        ("On January 23, what came next?", at(2026, 1, 23, 9), at(2026, 1, 26, 9)),
        ("the evening of 23 January", at(2026, 1, 23, 22), at(2026, 1, 21, 9)),
        ("on 3 May, 2023 I left", at(2023, 5, 3, 9), at(2026, 5, 3, 9)),
        ("in mid-January", at(2026, 1, 14), at(2026, 1, 28)),
        ("the last day of January", at(2026, 1, 31, 9), at(2026, 1, 20)),
        ("last week of January", at(2026, 1, 27), at(2026, 1, 10)),
        ("what did I say yesterday", at(2026, 2, 19, 9), at(2026, 2, 17)),
        ("the thing from last week", at(2026, 2, 11), at(2026, 1, 30)),
        ("what did we do last Tuesday", at(2026, 2, 17, 9), at(2026, 2, 10, 9)),
        ("and last friday?", at(2026, 2, 13, 9), at(2026, 2, 20, 9)),
        ("was haben wir letzten Montag gemacht", at(2026, 2, 16, 9), at(2026, 2, 19, 9)),
        ("two days ago", at(2026, 2, 18, 12), at(2026, 2, 10)),
        ("this month", at(2026, 2, 5), at(2026, 1, 5)),
        ("what broke last month?", at(2026, 1, 1, 9), at(2025, 12, 30, 9)),
        ("on march 5", at(2025, 3, 5, 9), at(2025, 3, 7, 9)),
        ("the crash of may 12", at(2025, 5, 12, 9), at(2025, 5, 14, 9)),
        ("what changed in may 2025?", at(2025, 5, 30), at(2025, 6, 3)),
        ("Was haben wir gestern gemacht?", at(2026, 2, 19, 9), at(2026, 2, 17)),
        ("vor zwei Dingen, vor einer Woche", at(2026, 2, 13, 9), at(2026, 2, 9)),
        ("was im Mai 2025 geschah", at(2025, 5, 30), at(2025, 6, 3)),
        ("am 5. Mai", at(2025, 5, 5, 9), at(2025, 5, 7, 9)),
        ("what was it in 2026-01?", at(2026, 1, 30), at(2026, 2, 3)),
        ("Was war am 5. Januar 2026?", at(2026, 1, 5, 9), at(2026, 1, 7)),
    ],
)
def test_a_time_holds_its_days_and_not_others(text: str, inside: int, outside: int) -> None:
    date_range = parse_date_range(text, NOW)

    assert date_range is not None
    assert date_range.distance_days(inside) == 0
    assert date_range.distance_days(outside) > 0.9


@pytest.mark.parametrize(
    "text",
    [
        "", "may we use tabs?", "the 5 may fail", "march on", "version 2.1", "am 2.1.",
        "step 3. march through the list", "api version 2026-01 fails", "since release 1.02.2026", "CVE-2026-01",
        "Mai usare npm?",
    ],
)  # fmt: skip
def test_what_names_no_time_has_none(text: str) -> None:
    assert parse_date_range(text, NOW) is None


def test_a_date_without_a_year_is_looked_for_in_earlier_years_too() -> None:
    date_range = parse_date_range("on December 24", NOW)

    assert date_range is not None
    assert date_range.distance_days(at(2025, 12, 24, 10)) < 1
    assert any(start <= at(2025, 12, 24, 10) <= stop for start, stop in date_range.occurrences(NOW))
    assert all(start <= NOW for start, _ in date_range.occurrences(NOW))


def test_a_day_without_a_year_is_that_day_in_every_year() -> None:
    date_range = parse_date_range("on 23 February", at(2027, 1, 15))

    assert date_range is not None
    assert date_range.occurrences(at(2027, 1, 15))[0] == (at(2026, 2, 23), at(2026, 2, 24))
    for year in (2024, 2025, 2026):
        assert date_range.distance_days(at(year, 2, 22, 23)) > 0
        assert date_range.distance_days(at(year, 2, 23)) == date_range.distance_days(at(year, 2, 23, 23)) == 0
        assert date_range.distance_days(at(year, 2, 24, 1)) > 0


def test_29_february_is_looked_for_in_leap_years_only() -> None:
    date_range = parse_date_range("on 29 February", at(2028, 3, 15))

    assert date_range is not None
    assert [stop - start for start, stop in date_range.occurrences(at(2028, 3, 15))] == [86_400_000, 0, 0]
    assert date_range.distance_days(at(2024, 2, 29, 23)) == 0
    assert date_range.distance_days(at(2026, 2, 28, 9)) > 0


@pytest.mark.parametrize("text", ["9999999999 days ago", "9999 years ago", "December 9999", "in 0000-00-00"])
def test_a_time_that_no_clock_shows_fails_nothing(text: str) -> None:
    date_range = parse_date_range(text, NOW)

    assert date_range is None or date_range.distance_days(10**18) > 0
