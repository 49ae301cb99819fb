"""Weeks are counted from the one with 1 September in it, through to August."""

import sys
from datetime import date

sys.path.insert(0, sys.argv[1])

from rota.headings import week_heading

for day, wanted in [
    (date(2026, 9, 1), "Week 1 (31 Aug)"),
    (date(2026, 9, 6), "Week 1 (31 Aug)"),
    (date(2026, 9, 7), "Week 2 (7 Sep)"),
    (date(2026, 11, 26), "Week 13 (23 Nov)"),
    (date(2027, 1, 6), "Week 19 (4 Jan)"),
    (date(2027, 6, 30), "Week 44 (28 Jun)"),
    (date(2026, 8, 20), "Week 51 (17 Aug)"),
]:
    made = week_heading(day)
    assert made == wanted, f"{day}: {made} instead of {wanted}"
