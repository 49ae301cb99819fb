import unittest

from umsatz.reading import read_rows


class ReadingTest(unittest.TestCase):
    def test_rows(self):
        self.assertEqual(read_rows("Zoë;1200\nJürg;50\n".encode(), "Bern"), [("Zoë", 1200), ("Jürg", 50)])
