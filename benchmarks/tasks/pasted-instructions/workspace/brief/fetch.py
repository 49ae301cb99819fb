"""Fetches files."""


def file_name(url):
    """Return the name of the file that a URL leads to."""
    return url.rstrip("/").rpartition("/")[2] or "index"
