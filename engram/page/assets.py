"""The files that the page loads beside HTML: its own style and script, and htmx."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Folder of the files.
STATIC = Path(__file__).resolve().parent / "static"
#: Folder of the files of others, in it.
VENDOR = STATIC / "vendor"


@dataclass(frozen=True, slots=True)
class Asset:
    """One answer: a file, or scripts that must run without a gap between them."""

    paths: tuple[Path, ...]
    media_type: str

    def read(self) -> bytes:
        """The content, one file after the other."""
        return b"\n;\n".join(path.read_bytes() for path in self.paths)


#: Name in the address → what is served. Nothing else is served.
ASSETS: Mapping[str, Asset] = {
    "page.css": Asset((STATIC / "page.css",), "text/css"),
    "page.js": Asset((STATIC / "page.js",), "text/javascript"),
    "icon.svg": Asset((STATIC / "icon.svg",), "image/svg+xml"),
    # htmx looks at the document in a task of its own. If its gate, hx-csp, came in another file, that task could run
    # first: in a browser under load, what no nonce allows was sent.
    "htmx.js": Asset(
        tuple(VENDOR / f"{name}-4.0.1.min.js" for name in ("htmx", "hx-sse", "hx-csp")), "text/javascript"
    ),
}
