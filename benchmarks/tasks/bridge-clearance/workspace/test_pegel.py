import unittest

from pegel.board import level_line
from pegel.gauges import parse


class PegelTest(unittest.TestCase):
    def test_parse(self):
        self.assertEqual(parse("obertor; 2026-03-03T06:00; 203"), ("obertor", 203))

    def test_an_unknown_gauge_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no such gauge: kanal"):
            parse("kanal;2026-03-03T06:00;203")

    def test_level_line(self):
        self.assertEqual(level_line("kornsteg;2026-03-03T06:00;187"), "Kornsteg: 187 cm")
