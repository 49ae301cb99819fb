"""Counters of the service, and their Prometheus text. They count requests, rows and bytes, and hold no contents."""

from __future__ import annotations

import threading
from collections import defaultdict

#: Upper bounds of the buckets of durations, in seconds.
BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)


class Metrics:
    """What the service did since it started. Any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._durations: dict[tuple[str, float], int] = defaultdict(int)
        self._seconds: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)

    def note_request(self, what: str, status: int, seconds: float) -> None:
        """Count a request."""
        with self._lock:
            self._requests[what, status] += 1
            self._seconds[what] += seconds
            for bucket in BUCKETS:
                if seconds <= bucket:
                    self._durations[what, bucket] += 1

    def add(self, name: str, number: int) -> None:
        """Add to a counter or gauge."""
        with self._lock:
            self._counts[name] += number

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        with self._lock:
            lines = ["# TYPE engram_hub_requests_total counter"]
            lines += [
                f'engram_hub_requests_total{{request="{what}",status="{status}"}} {number}'
                for (what, status), number in sorted(self._requests.items())
            ]
            lines.append("# TYPE engram_hub_request_seconds histogram")
            for what, seconds in sorted(self._seconds.items()):
                count = sum(number for (asked, _), number in self._requests.items() if asked == what)
                name = "engram_hub_request_seconds"
                lines += [
                    f'{name}_bucket{{request="{what}",le="{bucket}"}} {self._durations[what, bucket]}'
                    for bucket in BUCKETS
                ]
                lines.append(f'{name}_bucket{{request="{what}",le="+Inf"}} {count}')
                lines.append(f'{name}_sum{{request="{what}"}} {seconds:.6f}')
                lines.append(f'{name}_count{{request="{what}"}} {count}')
            for name, number in sorted(self._counts.items()):
                kind = "gauge" if name.endswith("_now") else "counter"
                lines += [f"# TYPE engram_hub_{name} {kind}", f"engram_hub_{name} {number}"]
        return "\n".join(lines) + "\n"
