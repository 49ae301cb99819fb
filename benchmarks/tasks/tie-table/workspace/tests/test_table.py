import unittest

from hallenliga.table import row, table
from hallenliga.teams import Team


class TableTest(unittest.TestCase):
    def test_points_decide(self):
        teams = [Team("Rain", points=3), Team("Aesch", points=9), Team("Hohenrain", points=4)]
        self.assertEqual([team.name for team in table(teams)], ["Aesch", "Hohenrain", "Rain"])

    def test_row(self):
        team = Team("Aesch", 4, 3, 9, 21, 12, 6)
        self.assertEqual(row(1, team), " 1 Aesch              4   21:12    6   9")
