"""The version of this installation: as it was released, and of the code as it lies here."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: Name of the distribution.
DISTRIBUTION = "engram-recall"
#: What is reported where Engram runs without being installed.
UNKNOWN = "0"
_PACKAGE = Path(__file__).resolve().parent


def engram_version() -> str:
    """Return the version of the installed distribution; "0" if it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return UNKNOWN


def code_version(package: Path = _PACKAGE) -> str:
    """Return the version and a fingerprint of the source files, such as ``0.1.0+3f9a12c4``.

    Two processes with different values run different code. The fingerprint is made of names, sizes and times of the
    files: it changes with every update, and with every edit of a checkout. Takes a few milliseconds.
    """
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(package.rglob("*.py")):
        try:
            facts = path.stat()
        except OSError:
            continue
        digest.update(f"{path.relative_to(package)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return f"{engram_version()}+{digest.hexdigest()}"
