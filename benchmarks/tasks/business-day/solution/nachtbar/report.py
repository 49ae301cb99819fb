"""Reports."""

from datetime import timedelta

#: A business day begins at 05:30.
DAY_BEGINS = timedelta(hours=5, minutes=30)


def total(sales):
    """Return the revenue of all sales, in Rappen."""
    return sum(sale.amount for sale in sales)


def daily_totals(sales):
    """Return the revenue of each business day, in Rappen."""
    totals = {}
    for sale in sales:
        day = (sale.at - DAY_BEGINS).date()
        totals[day] = totals.get(day, 0) + sale.amount
    return totals
