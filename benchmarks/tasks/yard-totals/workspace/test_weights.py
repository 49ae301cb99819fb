import unittest

from yard.weights import Weighing, by_scale


class WeightsTest(unittest.TestCase):
    def test_by_scale(self):
        weighings = [
            Weighing(1, "glass", 400),
            Weighing(2, "copper", 50),
            Weighing(2, "tin", 10),
            Weighing(1, "tin", 7, True),
        ]
        self.assertEqual(by_scale(weighings), {1: 400, 2: 60})
