"""The arrival is an ISO text, as that of a trip; a number is what another project writes."""

import sys
from datetime import UTC, datetime

sys.path.insert(0, sys.argv[1])

from meridian.json_out import stop_json
from meridian.trips import Stop

at = datetime(2026, 3, 4, 8, 15, tzinfo=UTC)
made = stop_json(Stop("s1", "Harbour", at))
values = list(made.values())
if any(isinstance(value, int | float) for value in values) or any(name.endswith("_ms") for name in made):
    print(f"times of another project: {made}")
    sys.exit(3)
assert {"s1", "Harbour", "2026-03-04T08:15:00+00:00"} == set(values), f"{made}"
