"""The released version, a fingerprint of the code, and the commands that install or update Engram.

The build reads ``VERSION``. Functions import modules locally, because every Claude Code session waits for a process
that needs only the constants.
"""

from __future__ import annotations

from pathlib import Path

#: Semantic version, as in CHANGELOG.md.
VERSION = "0.1.0"
#: The name under which Engram is installed and uninstalled.
NAME = "engram-recall"
#: Argument of the installer. Once the package is on an index, it becomes ``NAME``, and ``make docs`` writes it into the
#: README and the pages.
SOURCE = "."

_PACKAGE = Path(__file__).resolve().parent


def code_version(package: Path = _PACKAGE) -> str:
    """Return the version and a fingerprint of the source files, such as ``0.1.0+3f9a12c4``.

    The fingerprint covers the files' names and contents, so it changes with every update and every edit of a checkout,
    but not if the same code is installed again. Takes tens of milliseconds.
    """
    import hashlib

    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(package.rglob("*.py")):
        try:
            content = path.read_bytes()
        except OSError:
            continue
        digest.update(f"{path.relative_to(package)} {len(content)}\n".encode() + content)
    return f"{VERSION}+{digest.hexdigest()}"


def install_command(extra: str = "") -> str:
    """Return a command that installs Engram with an extra, from its original source or else from ``SOURCE``."""
    import shlex

    source = _installed_from() or SOURCE
    return f"pip install {shlex.quote(f'{source}[{extra}]' if extra else source)}"


def update_command() -> str:
    """Return a command that installs this installation's dependencies; it works in any folder."""
    import shlex
    import sys

    folder = _PACKAGE.parent
    what = f"-e {shlex.quote(str(folder))}" if (folder / "pyproject.toml").is_file() else install_command()[12:]
    return f"{shlex.quote(sys.executable)} -m pip install {what}"


def _installed_from() -> str:
    """Return the folder or archive from which Engram was installed; "" if it is unknown or no longer exists."""
    import json
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    try:
        noted = json.loads(metadata.distribution(NAME).read_text("direct_url.json") or "{}")
        address = urlsplit(str(noted.get("url", "")))
    except (metadata.PackageNotFoundError, OSError, ValueError, AttributeError):
        return ""
    path = Path(unquote(address.path))
    return str(path) if address.scheme == "file" and path.exists() else ""
