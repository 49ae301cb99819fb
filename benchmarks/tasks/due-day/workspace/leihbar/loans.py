"""Loans."""

from dataclasses import dataclass
from datetime import date


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
