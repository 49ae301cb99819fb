"""Sales before half past five belong to the day before."""

import sys
from datetime import date, datetime

sys.path.insert(0, sys.argv[1])

from nachtbar.report import daily_totals
from nachtbar.sales import Sale

sales = [
    Sale(datetime(2026, 3, 6, 22, 0), 1),
    Sale(datetime(2026, 3, 7, 0, 30), 10),
    Sale(datetime(2026, 3, 7, 5, 29), 100),
    Sale(datetime(2026, 3, 7, 5, 30), 1000),
    Sale(datetime(2026, 3, 7, 6, 10), 10000),
]
totals = daily_totals(sales)
wanted = {date(2026, 3, 6): 111, date(2026, 3, 7): 11000}
assert dict(totals) == wanted, f"{totals}"
