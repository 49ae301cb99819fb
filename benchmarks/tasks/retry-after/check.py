"""The header counts milliseconds; after three tries it is an error."""

import sys

sys.path.insert(0, sys.argv[1])

from wetter.fetch import GatewayError, fetch_report

slept = []
answers = [(429, {"Retry-After": "1500"}, None), (429, {"Retry-After": "20000"}, None), (200, {}, {"t": 4})]
assert fetch_report(lambda path: answers.pop(0), "bern", sleep=slept.append) == {"t": 4}
assert [round(float(seconds), 3) for seconds in slept] == [1.5, 20.0], f"it slept {slept} seconds"
tries = []


def busy(path):
    tries.append(path)
    return 429, {"Retry-After": "10"}, None


try:
    fetch_report(busy, "bern", sleep=lambda seconds: None)
except GatewayError:
    pass
else:
    raise AssertionError("three refusals must be an error")
assert len(tries) == 3, f"{len(tries)} tries"
