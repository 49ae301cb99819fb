import unittest
from datetime import date

from rota.headings import day_heading
from rota.shifts import Shift, by_day


class RotaTest(unittest.TestCase):
    def test_day_heading(self):
        self.assertEqual(day_heading(date(2026, 10, 6)), "Tue 6 Oct")

    def test_the_earliest_is_first(self):
        day = date(2026, 10, 6)
        late, early = Shift("Oona", day, 18, 23), Shift("Piet", day, 9, 14)
        self.assertEqual(by_day([late, early]), {day: [early, late]})
