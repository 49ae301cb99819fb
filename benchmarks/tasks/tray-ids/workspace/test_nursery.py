import unittest

from nursery.ids import bed_id, house_id, parse_id
from nursery.labels import label


class NurseryTest(unittest.TestCase):
    def test_ids(self):
        self.assertEqual((bed_id(7), house_id(2)), ("B007", "H002"))

    def test_parse(self):
        self.assertEqual(parse_id("B007 "), ("bed", 7))
        with self.assertRaises(ValueError):
            parse_id("bed 7")

    def test_label(self):
        self.assertEqual(label("H002", "Salvia nemorosa"), ["H002", "Salvia nemorosa"])
