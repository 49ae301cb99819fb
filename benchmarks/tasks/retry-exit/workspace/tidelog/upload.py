"""Sends readings to the harbour office."""

import json
import urllib.request

SERVER = "http://tides.harbour.example/readings"


def send(readings):
    """Send readings in one request; an OSError means that the server was not reached."""
    body = json.dumps(readings).encode()
    request = urllib.request.Request(SERVER, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        answer.read()
