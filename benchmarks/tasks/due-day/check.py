"""A due date on a closed day moves to the last open day before it."""

import sys
from datetime import date

sys.path.insert(0, sys.argv[1])

from leihbar.loans import due_date

CASES = (
    (date(2026, 11, 3), date(2026, 11, 24)),
    (date(2026, 11, 17), date(2026, 12, 5)),
    (date(2026, 11, 15), date(2026, 12, 5)),
    (date(2026, 12, 5), date(2026, 12, 23)),
    (date(2026, 12, 11), date(2026, 12, 31)),
    (date(2027, 3, 5), date(2027, 3, 25)),
)
for lent_on, due in CASES:
    made = due_date(lent_on)
    assert made == due, f"lent on {lent_on}: due on {made}, not {due}"
print("a due date goes back to the last open day")
