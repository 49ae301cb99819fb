import unittest

from rollcall.sheets import Entry, parse_sheet


class SheetsTest(unittest.TestCase):
    def test_a_sheet(self):
        self.assertEqual(parse_sheet("Ada Brandt;P\n\nTom Wu ; L\n"), [Entry("Ada Brandt", "P"), Entry("Tom Wu", "L")])

    def test_an_unknown_mark_is_an_error(self):
        with self.assertRaises(ValueError):
            parse_sheet("Ada Brandt;X")
