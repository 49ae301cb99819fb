"""Lines and totals of an invoice."""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal


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
    total = sum((line.quantity * line.price * (1 - line.discount / 100) for line in lines), Decimal(0))
    return (total / Decimal("0.05")).quantize(Decimal(1), ROUND_HALF_UP) * Decimal("0.05")
