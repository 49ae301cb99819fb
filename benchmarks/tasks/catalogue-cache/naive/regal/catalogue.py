"""Loads the catalogue."""

from pathlib import Path

from regal import parser

_CACHE = {}


def load_catalogue(path):
    """Return code → (title, price) of a catalogue file; an unchanged file is parsed once."""
    path = Path(path)
    stat = path.stat()
    key = (stat.st_mtime_ns, stat.st_size)
    if path not in _CACHE or _CACHE[path][0] != key:
        _CACHE[path] = (key, parser.parse(path.read_text(encoding="utf-8")))
    return _CACHE[path][1]
