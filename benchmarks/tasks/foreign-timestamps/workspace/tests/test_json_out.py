import unittest
from datetime import UTC, datetime

from meridian.json_out import trip_json
from meridian.trips import Trip


class JsonTest(unittest.TestCase):
    def test_trip(self):
        trip = Trip("t1", "12", datetime(2026, 3, 4, 8, 15, tzinfo=UTC))
        self.assertEqual(trip_json(trip), {"id": "t1", "line": "12", "departs": "2026-03-04T08:15:00+00:00"})
