"""Ids of places in the nursery."""

import re


def bed_id(number):
    """Return the id of a bed."""
    return f"B{number:03}"


def house_id(number):
    """Return the id of a glass house."""
    return f"H{number:03}"


def tray_id(number):
    """Return the id of a propagation tray."""
    return f"tray-{number}"


def parse_id(text):
    """Return kind and number of an id."""
    text = text.strip()
    if found := re.fullmatch(r"([BH])(\d{3})", text):
        return {"B": "bed", "H": "house"}[found[1]], int(found[2])
    if found := re.fullmatch(r"tray-(\d+)", text):
        return "tray", int(found[1])
    raise ValueError(f"not an id: {text!r}")
