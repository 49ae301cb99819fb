import unittest
from decimal import Decimal

from pulsar.billing import price


class BillingTest(unittest.TestCase):
    def test_price_list_of_september(self):
        self.assertEqual(price("pro"), Decimal("29.90"))
