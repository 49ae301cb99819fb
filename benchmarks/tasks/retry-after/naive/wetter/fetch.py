"""Fetches reports."""

import time


class GatewayError(Exception):
    """The gateway did not answer as it should."""


def fetch_report(get, station, sleep=time.sleep):
    """Return a station's report.

    Args:
        get: ``get(path)`` returns status, headers (a dict) and body.
        station: name of the station.
        sleep: waits for a number of seconds.
    """
    for attempt in range(3):
        status, headers, body = get(f"/report/{station}")
        if status == 200:
            return body
        if status != 429 or attempt == 2:
            break
        sleep(float(headers["Retry-After"]))
    raise GatewayError(f"{station}: status {status}")
