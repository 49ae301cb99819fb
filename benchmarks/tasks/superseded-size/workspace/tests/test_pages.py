import unittest

from katalog.pages import page_count


class PagesTest(unittest.TestCase):
    def test_count(self):
        self.assertEqual(page_count(list(range(21)), 10), 3)
