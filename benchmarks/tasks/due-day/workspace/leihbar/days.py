"""Days on which the library is open."""

from datetime import date

#: Sunday and Monday.
CLOSED_WEEKDAYS = {6, 0}

CLOSED = {
    date(2026, 12, 8),
    date(2026, 12, 24),
    date(2026, 12, 25),
    date(2026, 12, 26),
    date(2027, 1, 1),
    date(2027, 1, 2),
    date(2027, 3, 26),
}


def is_open(day):
    """Tell whether the library is open on a day."""
    return day.weekday() not in CLOSED_WEEKDAYS and day not in CLOSED
