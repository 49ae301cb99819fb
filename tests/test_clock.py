"""Times: what is no time of a session is none, and what is stored can always be shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from engram.system.clock import LAST_MS, SystemClock, day_of, iso_time, moment_of, parse_time_ms

#: The system's clock that counts the time for which the machine sleeps.
_WITH_SLEEP = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


@pytest.fixture(params=["Pacific/Kiritimati", "Etc/GMT+12", "UTC"])
def zone(request: pytest.FixtureRequest) -> Iterator[None]:
    """A local time zone, for the test only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59-12:00",
        "9999-12-31T23:59:59Z",
        "2024-02-30T00:00:00Z",
        "+275760-09-13T00:00:00Z",
        "",
        17,
    ],
)
def test_an_impossible_time_is_none(text: object) -> None:
    assert parse_time_ms(text) is None


@pytest.mark.parametrize("at_ms", [0, LAST_MS, 1_700_000_000_123 // 1000 * 1000])
def test_a_time_is_read_as_it_is_shown(at_ms: int) -> None:
    assert parse_time_ms(iso_time(at_ms)) == at_ms


@pytest.mark.parametrize("at_ms", [-1, -(10**17), LAST_MS + 86_400_000 * 2, 10**17, 2**63 - 1])
@pytest.mark.usefixtures("zone")
def test_a_stored_time_can_be_shown_in_every_zone(at_ms: int) -> None:
    assert iso_time(at_ms)[:4] in ("1970", "9999")
    assert day_of(at_ms)[:4] in ("1969", "1970", "9999")
    assert moment_of(at_ms).year in (1969, 1970, 9999)


def test_a_process_notices_that_the_machine_has_travelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a worker that runs for weeks would go on with the days of the place where it was started."""
    at_ms = parse_time_ms("2026-03-29T22:30:00Z")
    assert at_ms is not None
    with monkeypatch.context() as patch:
        days = []
        for zone in ("Europe/Berlin", "America/New_York"):
            patch.setenv("TZ", zone)
            SystemClock().now_ms()
            days.append(day_of(at_ms))
    time.tzset()

    assert days == ["2026-03-30", "2026-03-29"]


def test_the_steady_clock_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a cap of a day would last for three on a laptop that is used for eight hours of each."""
    asleep_seconds = 16 * 3600.0
    monkeypatch.setattr(time, "clock_gettime", {_WITH_SLEEP: 100.0}.get)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 - asleep_seconds)

    assert SystemClock().steady_seconds() == 100.0
