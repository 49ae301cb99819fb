"""Every setting as people and scripts read it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from engram.settings import Settings


def plain_settings(settings: Settings) -> dict[str, object]:
    """Return every setting by name: a number, a text, a truth value, or a list of texts."""
    return {field.name: plain_value(getattr(settings, field.name)) for field in dataclasses.fields(settings)}


def plain_value(value: object) -> object:
    """Return one value as JSON has it."""
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def shown_value(value: object) -> str:
    """Return one plain value as config.toml's lines and tables show it."""
    if isinstance(value, list):
        return ", ".join(str(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
