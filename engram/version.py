"""The version of this installation."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

#: Name of the distribution.
DISTRIBUTION = "engram-recall"
#: What is reported where Engram runs without being installed.
UNKNOWN = "0"


def engram_version() -> str:
    """Return the version of the installed distribution; "0" if it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return UNKNOWN
