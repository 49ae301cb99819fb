"""One-time entries: a file for each token, which a browser opens and the server deletes when the token is spent."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from pathlib import Path

from engram.atomic import make_private_folder, write_atomic
from engram.page.access import ADDRESS, ENTRY_PATH

#: How long a token can be used, in seconds.
MAX_AGE_SECONDS = 60.0
#: Bytes of randomness in a token.
TOKEN_BYTES = 32
#: Longest token that is looked up, in characters.
MAX_TOKEN_CHARACTERS = 200

_REDIRECT = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={url}"><title>Engram</title><p><a href="{url}">Open Engram</a></p></html>
"""


def make_entry(folder: Path, port: int) -> tuple[Path, str]:
    """Make a token; returns the file that leads a browser to the page (mode 0600), and the address in it.

    The file is named after the token's hash: as long as it is there, the token is unspent.
    """
    make_private_folder(folder)
    drop_old_entries(folder)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    url = f"http://{ADDRESS}:{port}{ENTRY_PATH}?token={token}"
    path = _path_of(folder, token)
    write_atomic(path, _REDIRECT.format(url=url).encode())
    return path, url


def spend_entry(folder: Path, token: str) -> bool:
    """Spend a token; True for the one caller that may enter. It must be at most a minute old."""
    if not 0 < len(token) <= MAX_TOKEN_CHARACTERS:
        return False
    path = _path_of(folder, token)
    try:
        is_fresh = _age_seconds(path) <= MAX_AGE_SECONDS
        # Of any number of callers, one deletes the file.
        os.unlink(path)
    except OSError:
        return False
    return is_fresh


def drop_old_entries(folder: Path) -> None:
    """Delete the files of tokens that nobody used in time."""
    for path in folder.glob("*.html"):
        with contextlib.suppress(OSError):
            if _age_seconds(path) > MAX_AGE_SECONDS:
                path.unlink()


def _path_of(folder: Path, token: str) -> Path:
    return folder / f"{hashlib.sha256(token.encode('utf-8', 'replace')).hexdigest()}.html"


def _age_seconds(path: Path) -> float:
    """Seconds since the file was written; a time in the future counts as too old."""
    age = time.time() - path.stat().st_mtime
    return age if age > -1.0 else MAX_AGE_SECONDS + 1
