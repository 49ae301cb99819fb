"""Lines and totals of an invoice."""

from dataclasses import dataclass
from decimal import ROUND_HALF_DOWN, Decimal

STEP = Decimal("0.05")


@dataclass(frozen=True)
class Line:
    """A line of an invoice."""

    text: str
    quantity: Decimal
    price: Decimal
    #: In percent.
    discount: Decimal = Decimal(0)


def line_total(line):
    """Return a line's amount, rounded to 5 Rappen; a tie goes down."""
    amount = line.quantity * line.price * (100 - line.discount) / 100
    return (amount / STEP).quantize(Decimal(1), ROUND_HALF_DOWN) * STEP


def invoice_total(lines):
    """Return the amount at the bottom of the invoice."""
    return sum((line_total(line) for line in lines), Decimal(0)).quantize(Decimal("0.01"))
