"""Loads the catalogue."""

from pathlib import Path

from regal import parser


def load_catalogue(path):
    """Return code → (title, price) of a catalogue file."""
    return parser.parse(Path(path).read_text(encoding="utf-8"))
