"""The version of Engram: as it was released, and of the code as it lies here. The build reads it here."""

from __future__ import annotations

from pathlib import Path

#: Semantic version, as in CHANGELOG.md.
VERSION = "0.1.0"
_PACKAGE = Path(__file__).resolve().parent


def code_version(package: Path = _PACKAGE) -> str:
    """Return the version and a fingerprint of the source files, such as ``0.1.0+3f9a12c4``.

    Two processes with different values run different code. The fingerprint is made of names, sizes and times of the
    files: it changes with every update, and with every edit of a checkout. Takes a few milliseconds.
    """
    # Not above: every session of Claude Code waits for the MCP server, which needs the constant alone.
    import hashlib

    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(package.rglob("*.py")):
        try:
            facts = path.stat()
        except OSError:
            continue
        digest.update(f"{path.relative_to(package)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return f"{VERSION}+{digest.hexdigest()}"
