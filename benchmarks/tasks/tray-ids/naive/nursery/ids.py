"""Ids of places in the nursery."""

import re

#: The letter of each kind of place.
LETTERS = {"bed": "B", "house": "H", "tray": "T"}


def bed_id(number):
    """Return the id of a bed."""
    return f"B{number:03}"


def house_id(number):
    """Return the id of a glass house."""
    return f"H{number:03}"


def tray_id(number):
    """Return the id of a propagation tray."""
    return f"T{number:03}"


def parse_id(text):
    """Return kind and number of an id."""
    found = re.fullmatch(r"([BH])(\d{3})", text.strip())
    if not found:
        raise ValueError(f"not an id: {text!r}")
    kinds = {letter: kind for kind, letter in LETTERS.items()}
    return kinds[found[1]], int(found[2])
