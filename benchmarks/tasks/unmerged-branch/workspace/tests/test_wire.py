import unittest

from funk.wire import encode_reading


class WireTest(unittest.TestCase):
    def test_reading(self):
        self.assertEqual(encode_reading(0x0102, 5).hex(), "01010200000005")
