"""Prices."""

from decimal import Decimal

PRICES = {"free": "0", "pro": "29.90", "max": "99.00"}


def price(plan):
    """Return the price of a plan for a month."""
    return Decimal(PRICES[plan])
