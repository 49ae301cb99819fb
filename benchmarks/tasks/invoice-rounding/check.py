"""Each line is rounded to 0.05 with ties going down; the sum is not rounded again."""

import sys
from decimal import Decimal

sys.path.insert(0, sys.argv[1])

from faktura.invoice import Line, invoice_total


def total(*prices, discount=0):
    return invoice_total([Line("x", Decimal(1), Decimal(price), Decimal(discount)) for price in prices])


cases = {
    ("1.02",) * 3: "3.00",
    ("1.03",) * 3: "3.15",
    ("1.025",) * 3: "3.00",
    ("1.075", "2.00"): "3.05",
    ("0.026", "0.026"): "0.10",
}
for prices, wanted in cases.items():
    got = total(*prices)
    assert got == Decimal(wanted), f"{prices}: {got} instead of {wanted}"
assert total("10.25", discount=10) == Decimal("9.20"), "9.225 is a tie, which goes down"
