import unittest

from orders.export import export, target


class ExportTest(unittest.TestCase):
    def test_lines(self):
        self.assertEqual(export([(1, "a"), (2, "b")]), ["1;a", "2;b"])

    def test_folder(self):
        self.assertEqual(target(), "out")
