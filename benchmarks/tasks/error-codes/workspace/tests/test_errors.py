import unittest

from hafen import errors


class ErrorsTest(unittest.TestCase):
    def test_codes_are_distinct(self):
        codes = [error.code for error in errors.HafenError.__subclasses__()]
        self.assertEqual(len(codes), len(set(codes)))
