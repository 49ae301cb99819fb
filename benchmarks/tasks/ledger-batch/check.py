"""130 entries must all be stored by a ledger that keeps the first 40 of a call, in at most four calls."""

import sys

sys.path.insert(0, sys.argv[1])

from kassa.ledger import LedgerClient

stored, calls = [], []


def transport(path, body):
    if len(body) > 100:
        return 413, {}
    calls.append(len(body))
    stored.extend(body[:40])
    return 200, {"accepted": len(body)}


entries = [{"id": number} for number in range(130)]
LedgerClient(transport).push_all(entries)
assert stored == entries, f"{len(stored)} of 130 entries were stored, in calls of {calls}"
assert len(calls) <= 4, f"{len(calls)} calls are too many"
