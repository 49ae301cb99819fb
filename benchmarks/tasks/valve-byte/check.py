"""The value falls from 240 (closed) to 0 (open) and never gets above 240."""

import sys

sys.path.insert(0, sys.argv[1])

from palmhaus.valves import frame, opening, set_opening

for percent, value in ((0, 240), (25, 180), (50, 120), (75, 60), (100, 0)):
    assert opening(percent) == value, f"{percent} percent give {opening(percent)}"
for percent in range(101):
    exact = (100 - percent) * 2.4
    assert isinstance(opening(percent), int) and abs(opening(percent) - exact) < 1, (
        f"{percent} percent give {opening(percent)}"
    )
for percent in (-1, 101):
    try:
        opening(percent)
    except ValueError:
        continue
    raise AssertionError(f"{percent} percent were taken")
assert set_opening(2, 75) == frame(2, 60), set_opening(2, 75).hex()
print("0 is open, 240 is closed")
