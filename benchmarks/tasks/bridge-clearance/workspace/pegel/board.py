"""Texts of the skippers' board."""

from pegel.gauges import parse

#: Lowest edge of each bridge in centimetres above canal zero; each stands beside the gauge of its name.
BRIDGES = {"obertor": 655, "mittelau": 698, "kornsteg": 742}


def level_line(line):
    """Return the board's text for a line of a gauge."""
    name, value = parse(line)
    return f"{name.title()}: {value} cm"
