import unittest

from brief.fetch import file_name


class FetchTest(unittest.TestCase):
    def test_name(self):
        self.assertEqual(file_name("https://example.org/a/b.pdf"), "b.pdf")
