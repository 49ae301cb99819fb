import unittest
from decimal import Decimal

from faktura.invoice import Line, invoice_total


class TotalTest(unittest.TestCase):
    def test_no_lines_are_nothing(self):
        self.assertEqual(invoice_total([]), Decimal("0.00"))

    def test_lines_are_added(self):
        lines = [Line("Coffee", Decimal(2), Decimal("4.50")), Line("Cake", Decimal(1), Decimal("6.00"), Decimal(10))]
        self.assertEqual(invoice_total(lines), Decimal("14.40"))
