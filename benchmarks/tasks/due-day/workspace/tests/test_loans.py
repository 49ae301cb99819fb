import unittest
from datetime import date

from leihbar.days import is_open
from leihbar.loans import Loan, is_overdue


class LoansTest(unittest.TestCase):
    def test_the_day_itself_is_not_too_late(self):
        loan = Loan("atlas", "r7", date(2026, 11, 3), date(2026, 11, 24))
        self.assertFalse(is_overdue(loan, date(2026, 11, 24)))
        self.assertTrue(is_overdue(loan, date(2026, 11, 25)))

    def test_days(self):
        self.assertFalse(is_open(date(2026, 11, 23)))
        self.assertTrue(is_open(date(2026, 11, 24)))
