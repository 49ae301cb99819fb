import unittest
from datetime import date

from adressbuch.contacts import Contact, dedupe


class DedupeTest(unittest.TestCase):
    def test_the_latest_stays(self):
        old = Contact("Ann", "ann@example.org", date(2025, 1, 1))
        new = Contact("Ann B", "ann@example.org", date(2026, 1, 1))
        bob = Contact("Bob", "bob@example.org", date(2024, 1, 1))
        self.assertEqual(dedupe([bob, new, old]), [new, bob])
