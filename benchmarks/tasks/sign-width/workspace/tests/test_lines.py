import unittest

from wegweiser.lines import page


class LinesTest(unittest.TestCase):
    def test_a_page(self):
        self.assertEqual(page(["Room 12", "Workshop"]), b"\x02Room 12\nWorkshop\x03")

    def test_there_are_four_lines(self):
        with self.assertRaises(ValueError):
            page(["a"] * 5)
