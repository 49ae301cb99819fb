"""Sensors of the beds."""


def mean(values):
    """Return the mean of the readings that are there, or None."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None
