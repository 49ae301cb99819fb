import unittest
from datetime import date

from pulsar.handlers import get_team_v1
from pulsar.teams import Team


class HandlersTest(unittest.TestCase):
    def test_version_1(self):
        status, body = get_team_v1(Team(7, "blue", "pro", date(2026, 3, 4)))
        self.assertEqual((status, body["slug"], body["created"]), (200, "blue", "2026-03-04"))
