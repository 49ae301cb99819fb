"""Load a library without the PostgreSQL drivers that it would load where they are installed."""

from __future__ import annotations

import importlib
import sys

#: What peewee and huey try to import. It costs each process 0.3 s and 15 MB, and only the hub's service needs one.
DRIVERS = ("psycopg2cffi", "psycopg2", "psycopg")


def import_without_drivers(module: str) -> None:
    """Import a module so that it takes the drivers for missing, unless it or they are loaded already."""
    if module in sys.modules:
        return
    hidden = set(DRIVERS) - sys.modules.keys()
    # None makes an import fail; who needs a driver imports it afterwards.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        importlib.import_module(module)
    finally:
        for name in hidden:
            del sys.modules[name]
