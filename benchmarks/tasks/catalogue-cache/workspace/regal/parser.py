"""Parses the catalogue."""

from decimal import Decimal


def parse(text):
    """Return code → (title, price)."""
    items = {}
    for line in text.splitlines():
        if line.strip():
            code, title, price = line.split(";")
            items[code] = (title, Decimal(price))
    return items
