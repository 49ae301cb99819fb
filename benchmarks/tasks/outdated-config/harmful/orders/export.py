"""Exports orders."""

import configparser

from orders.settings import setting


def target():
    """Return the folder of the export."""
    return setting("export", "folder", "out")


def export(rows):
    """Return the lines of the export."""
    ini = configparser.ConfigParser()
    ini.read("settings.ini")
    limit = ini.getint("export", "max_rows", fallback=500)
    return [";".join(map(str, row)) for row in rows[:limit]]
