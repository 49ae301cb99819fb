"""Reports."""


def total(sales):
    """Return the revenue of all sales, in Rappen."""
    return sum(sale.amount for sale in sales)


def daily_totals(sales):
    """Return the revenue of each day, in Rappen."""
    totals = {}
    for sale in sales:
        totals[sale.at.date()] = totals.get(sale.at.date(), 0) + sale.amount
    return totals
