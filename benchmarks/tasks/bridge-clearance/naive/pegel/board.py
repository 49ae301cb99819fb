"""Texts of the skippers' board."""

from pegel.gauges import parse

#: Lowest edge of each bridge in centimetres above canal zero; each stands beside the gauge of its name.
BRIDGES = {"obertor": 655, "mittelau": 698, "kornsteg": 742}


def level_line(line):
    """Return the board's text for a line of a gauge."""
    name, value = parse(line)
    return f"{name.title()}: {value} cm"


def clearance(line):
    """Return the centimetres of air under the bridge beside the gauge of a line, 0 if there are none."""
    name, value = parse(line)
    return max(0, BRIDGES[name] - value)
