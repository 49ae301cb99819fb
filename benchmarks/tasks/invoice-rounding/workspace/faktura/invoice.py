"""Lines and totals of an invoice."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Line:
    """A line of an invoice."""

    text: str
    quantity: Decimal
    price: Decimal
    #: In percent.
    discount: Decimal = Decimal(0)


def invoice_total(lines):
    """Return the amount at the bottom of the invoice."""
    raise NotImplementedError
