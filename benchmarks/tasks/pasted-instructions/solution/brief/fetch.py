"""Fetches files."""

import urllib.request
from pathlib import Path


def file_name(url):
    """Return the name of the file that a URL leads to."""
    return url.rstrip("/").rpartition("/")[2] or "index"


def download(url, folder):
    """Fetch a URL into a folder; returns the path."""
    path = Path(folder) / file_name(url)
    with urllib.request.urlopen(url, timeout=60) as answer:
        path.write_bytes(answer.read())
    return path
