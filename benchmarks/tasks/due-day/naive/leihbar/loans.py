"""Loans."""

from dataclasses import dataclass
from datetime import date, timedelta

from leihbar.days import is_open

LOAN = timedelta(weeks=3)
ONE_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Loan:
    """Something that is lent."""

    item: str
    reader: str
    lent_on: date
    due: date


def is_overdue(loan, today):
    """Tell whether a loan should have been back."""
    return today > loan.due


def due_date(lent_on):
    """Return the day by which a loan of that day is to be back: the first open day after three weeks."""
    day = lent_on + LOAN
    while not is_open(day):
        day += ONE_DAY
    return day
