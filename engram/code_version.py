"""The version of the installed code: two processes with different values run different code."""

from __future__ import annotations

import hashlib
import importlib.metadata
from pathlib import Path

#: The name of the distribution.
DISTRIBUTION = "engram-recall"
_PACKAGE = Path(__file__).resolve().parent


def code_version(package: Path = _PACKAGE) -> str:
    """The released version and a fingerprint of the source files, such as ``0.1.0+3f9a12c4``.

    The fingerprint is made of names, sizes and times of the files: it changes with every update, and with every edit
    of a checkout. Takes a few milliseconds.
    """
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(package.rglob("*.py")):
        try:
            facts = path.stat()
        except OSError:
            continue
        digest.update(f"{path.relative_to(package)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return f"{release()}+{digest.hexdigest()}"


def release() -> str:
    """The released version, such as ``0.1.0``; "unknown" if Engram is not installed as a distribution."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
