"""Sheets of a lesson: who was there."""

from collections import namedtuple

#: P present, A absent, L late.
MARKS = "PAL"

Entry = namedtuple("Entry", "pupil mark")


def parse_sheet(text):
    """Return the entries of a sheet, whose lines are like ``Ada Brandt;P``."""
    entries = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        pupil, mark = (part.strip() for part in line.split(";"))
        if mark not in MARKS:
            raise ValueError(f"{pupil}: no such mark: {mark}")
        entries.setdefault(pupil, mark)
    return [Entry(pupil, mark) for pupil, mark in entries.items()]


def merge_sheets(first, second):
    """Return the entries of two sheets of a lesson as one, by pupil."""
    marks = {entry.pupil: entry.mark for entry in [*first, *second]}
    return [Entry(pupil, marks[pupil]) for pupil in sorted(marks)]
