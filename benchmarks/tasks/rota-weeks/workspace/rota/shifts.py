"""Shifts of the stage crew."""

from collections import namedtuple

Shift = namedtuple("Shift", "person day begins ends")


def by_day(shifts):
    """Return the shifts of each day, the earliest first."""
    days = {}
    for shift in sorted(shifts, key=lambda shift: (shift.day, shift.begins, shift.person)):
        days.setdefault(shift.day, []).append(shift)
    return days
