import tempfile
import unittest
from datetime import date

from berichte.store import list_reports, write_report


class StoreTest(unittest.TestCase):
    def test_reports_are_listed_by_day(self):
        with tempfile.TemporaryDirectory() as folder:
            write_report(folder, date(2026, 2, 2), "b")
            write_report(folder, date(2026, 2, 1), "a")
            self.assertEqual([path.read_text() for path in list_reports(folder)], ["a", "b"])
