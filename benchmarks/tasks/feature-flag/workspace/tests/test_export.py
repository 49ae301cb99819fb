import unittest

from skizze.export import export_txt


class ExportTest(unittest.TestCase):
    def test_text(self):
        self.assertEqual(export_txt([(0, 0, 1, 2)]), "0,0 1,2")
