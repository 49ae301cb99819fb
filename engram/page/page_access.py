"""Who may see the page: its address, the secret path and cookie, and the checks of every request.

Each check stops an attack that was observed in a browser (``docs/page.md``), independently of the others: tests remove
one check and repeat the attack.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engram.system.atomic import make_private_folder, write_atomic

#: The only address on which the page listens.
ADDRESS = "127.0.0.1"
#: Name of the cookie that opens the page.
COOKIE = "engram_page"
#: Path of the one-time entry, the only path that is not below the secret one.
ENTRY_PATH = "/enter"
#: Bytes of randomness in the secret path and in the cookie.
SECRET_BYTES = 24
#: Values of Sec-Fetch-Site for the page's own requests, and for an address that a person typed.
OWN_SITES = ("same-origin", "none")
#: Methods that change nothing.
SAFE_METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Access:
    """The address of a running page, and the secrets that open it; valid until the process ends."""

    port: int
    #: First part of every path. Cookies ignore ports, so the path keeps the cookie from other servers on this machine.
    room: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES))
    #: Value of the cookie.
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES))

    @property
    def host(self) -> str:
        return f"{ADDRESS}:{self.port}"

    @property
    def origin(self) -> str:
        """The only Origin that may make changes."""
        return f"http://{self.host}"

    @property
    def root(self) -> str:
        """The path that contains every view, without a trailing slash."""
        return f"/{self.room}"

    @property
    def cookie_header(self) -> str:
        """The Set-Cookie header that lets a browser in until it is closed."""
        return f"{COOKIE}={self.secret}; Path={self.root}/; HttpOnly; SameSite=Strict"


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request without its body, as the checks examine it. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def is_entry(self) -> bool:
        """True for the one-time entry, which is opened from a file and has no cookie yet."""
        return self.path == ENTRY_PATH

    @property
    def is_write(self) -> bool:
        return self.method not in SAFE_METHODS


@dataclass(frozen=True, slots=True)
class AccessDenied:
    status: int
    reason: str


Check = Callable[[Access, RequestHead], AccessDenied | None]


def check_host(access: Access, head: RequestHead) -> AccessDenied | None:
    """Refuse a foreign host name that was made to point here (DNS rebinding)."""
    return None if head.headers.get("host") == access.host else AccessDenied(421, "this address does not exist")


def check_site(access: Access, head: RequestHead) -> AccessDenied | None:
    """Refuse requests from other pages, even those from other ports of this machine, which count as the same site."""
    if head.is_entry:
        return None
    allowed = OWN_SITES[:1] if head.is_write else OWN_SITES
    if head.headers.get("sec-fetch-site") in allowed:
        return None
    return AccessDenied(403, "the request came from another page, or from a browser that is too old; use: engram ui")


def check_cookie(access: Access, head: RequestHead) -> AccessDenied | None:
    """Refuse clients that did not use the one-time entry."""
    if head.is_entry:
        return None
    # Other programs on this machine set cookies, too, and not all of theirs are well-formed.
    pairs = (pair.strip().partition("=") for pair in head.headers.get("cookie", "").split(";"))
    kept = next((value for name, _, value in pairs if name == COOKIE), "")
    if secrets.compare_digest(kept.encode(), access.secret.encode()):
        return None
    return AccessDenied(403, "this page is closed; open it again with: engram ui")


def check_origin(access: Access, head: RequestHead) -> AccessDenied | None:
    """Refuse a change that was not requested by this page."""
    if not head.is_write or head.headers.get("origin") == access.origin:
        return None
    return AccessDenied(403, "changes must come from the page itself")


def check_sender(access: Access, head: RequestHead) -> AccessDenied | None:
    """Refuse a change from a plain form: the page's own scripts add a header that no form can add."""
    if not head.is_write or head.headers.get("hx-request") == "true":
        return None
    return AccessDenied(403, "changes must come from the page's own buttons")


#: All checks, in order.
CHECKS: tuple[Check, ...] = (check_host, check_site, check_cookie, check_origin, check_sender)


# -- One-time entries: a file for each token, which a browser opens and which is deleted when the token is spent.

#: How long a token is valid, in seconds.
MAX_AGE_SECONDS = 60.0
#: Bytes of randomness in a token.
TOKEN_BYTES = 32
#: Length above which a token is not even looked up, in characters.
MAX_TOKEN_CHARACTERS = 200

_REDIRECT = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={url}"><title>Engram</title><p><a href="{url}">Open Engram</a></p></html>
"""


def make_entry(folder: Path, port: int) -> tuple[Path, str]:
    """Make a token; return the file (mode 0600) that leads a browser to the page, and the address in it.

    The file is named after the token's hash. While it exists, the token is unspent.
    """
    make_private_folder(folder)
    drop_old_entries(folder)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    url = f"http://{ADDRESS}:{port}{ENTRY_PATH}?token={token}"
    path = _path_of(folder, token)
    write_atomic(path, _REDIRECT.format(url=url).encode())
    return path, url


def spend_entry(folder: Path, token: str) -> bool:
    """Spend a token that is at most a minute old; return True for the one caller that may enter."""
    if not 0 < len(token) <= MAX_TOKEN_CHARACTERS:
        return False
    path = _path_of(folder, token)
    try:
        is_fresh = _age_seconds(path) <= MAX_AGE_SECONDS
        # Only one of several callers can delete the file.
        os.unlink(path)
    except OSError:
        return False
    return is_fresh


def drop_old_entries(folder: Path) -> None:
    for path in folder.glob("*.html"):
        with contextlib.suppress(OSError):
            if _age_seconds(path) > MAX_AGE_SECONDS:
                path.unlink()


def _path_of(folder: Path, token: str) -> Path:
    return folder / f"{hashlib.sha256(token.encode('utf-8', 'replace')).hexdigest()}.html"


def _age_seconds(path: Path) -> float:
    """Return the seconds since the file was written; a time in the future counts as expired."""
    age = time.time() - path.stat().st_mtime
    return age if age > -1.0 else MAX_AGE_SECONDS + 1
