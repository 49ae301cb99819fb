import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

from regal.catalogue import load_catalogue


class CatalogueTest(unittest.TestCase):
    def test_items_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "catalogue.csv"
            path.write_text("A1;Lamp;0029.00\n", encoding="utf-8")
            self.assertEqual(load_catalogue(path), {"A1": ("Lamp", Decimal("29.00"))})
