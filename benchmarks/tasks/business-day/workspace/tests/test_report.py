import unittest
from datetime import datetime

from nachtbar.report import total
from nachtbar.sales import Sale


class ReportTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([Sale(datetime(2026, 3, 6, 20), 900), Sale(datetime(2026, 3, 6, 21), 600)]), 1500)
