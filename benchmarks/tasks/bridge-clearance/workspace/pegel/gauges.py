"""Readings of the gauges, in centimetres above canal zero."""

GAUGES = ("obertor", "mittelau", "kornsteg")


def parse(line):
    """Return gauge and reading of a line such as ``mittelau;2026-03-03T06:00;203``."""
    name, _at, value = (part.strip() for part in line.split(";"))
    if name not in GAUGES:
        raise ValueError(f"no such gauge: {name} (known: {', '.join(GAUGES)})")
    return name, int(value)
