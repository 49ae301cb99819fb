"""The version of Engram. The build reads it here."""

from __future__ import annotations

from typing import Final

#: Semantic version, as in CHANGELOG.md.
VERSION: Final = "0.1.0"
