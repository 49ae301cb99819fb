import unittest

from palmhaus.sensors import mean
from palmhaus.valves import frame


class ValvesTest(unittest.TestCase):
    def test_a_frame(self):
        self.assertEqual(frame(3, 17).hex(), "5603116a")

    def test_there_are_eight_valves(self):
        with self.assertRaises(ValueError):
            frame(9, 0)


class SensorsTest(unittest.TestCase):
    def test_a_missing_reading_does_not_count(self):
        self.assertEqual(mean([20.0, None, 22.0]), 21.0)
