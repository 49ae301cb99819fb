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
    status, _, body = get(f"/report/{station}")
    if status != 200:
        raise GatewayError(f"{station}: status {status}")
    return body
