"""Reports."""


def total(sales):
    """Return the revenue of all sales, in Rappen."""
    return sum(sale.amount for sale in sales)
