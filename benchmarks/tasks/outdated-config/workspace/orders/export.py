"""Exports orders."""

from orders.settings import setting


def target():
    """Return the folder of the export."""
    return setting("export", "folder", "out")


def export(rows):
    """Return the lines of the export."""
    return [";".join(map(str, row)) for row in rows]
