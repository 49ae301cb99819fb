import unittest

from kassa.ledger import LedgerClient, LedgerError


class PushTest(unittest.TestCase):
    def test_entries_are_sent_in_one_call(self):
        calls = []

        def transport(path, body):
            calls.append((path, body))
            return 200, {"accepted": len(body)}

        self.assertEqual(LedgerClient(transport).push([{"id": 1}, {"id": 2}]), 2)
        self.assertEqual(calls, [("/v3/entries", [{"id": 1}, {"id": 2}])])

    def test_a_refusal_is_an_error(self):
        with self.assertRaises(LedgerError):
            LedgerClient(lambda path, body: (413, {})).push([{"id": 1}])
