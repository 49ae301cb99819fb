"""The files that the page loads beside HTML: its own style and script, and htmx."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Folder of the files.
STATIC = Path(__file__).resolve().parent / "static"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    path: Path
    media_type: str

    def read(self) -> bytes:
        """The content of the file."""
        return self.path.read_bytes()


#: Name in the address → file. Nothing else is served.
ASSETS: Mapping[str, Asset] = {
    "page.css": Asset(STATIC / "page.css", "text/css"),
    "page.js": Asset(STATIC / "page.js", "text/javascript"),
    "icon.svg": Asset(STATIC / "icon.svg", "image/svg+xml"),
    "htmx.js": Asset(STATIC / "vendor" / "htmx-4.0.1.min.js", "text/javascript"),
    "hx-sse.js": Asset(STATIC / "vendor" / "hx-sse-4.0.1.min.js", "text/javascript"),
    "hx-csp.js": Asset(STATIC / "vendor" / "hx-csp-4.0.1.min.js", "text/javascript"),
}
