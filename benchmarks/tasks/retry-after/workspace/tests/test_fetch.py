import unittest

from wetter.fetch import GatewayError, fetch_report


class FetchTest(unittest.TestCase):
    def test_a_report_is_returned(self):
        self.assertEqual(fetch_report(lambda path: (200, {}, {"t": 4}), "bern"), {"t": 4})

    def test_an_error_is_raised(self):
        with self.assertRaises(GatewayError):
            fetch_report(lambda path: (500, {}, None), "bern")
