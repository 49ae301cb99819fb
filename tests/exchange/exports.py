"""Exports and imports of a test, by the functions that the commands call."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engram.exchange.exchange_records import Source
from engram.exchange.export import export_records, read_json_lines
from engram.exchange.importing import ImportReport, PlaceFinder, import_memories
from engram.models.engine.transaction import Store
from engram.redaction import redact
from engram.settings import Settings


def records(store: Store) -> list[dict[str, Any]]:
    """Everything that an export of a memory holds, but the mark of the memory that wrote it."""
    lines = export_records(store, lambda _: True, with_forgotten=True)
    return [{name: value for name, value in line.items() if name != "proof"} for line in lines]


def as_source(lines: list[dict[str, Any]]) -> Source:
    """Records as a file of JSON lines."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return read_json_lines(io.BytesIO(text.encode()), "test")


def import_into(
    store: Store,
    settings: Settings,
    source: Source,
    *,
    is_dry: bool = False,
    is_mine: bool = True,
    is_global: bool = False,
    map_folder: Callable[[str], str] = str,
) -> ImportReport:
    """Import a source; an export as the person's own."""
    places = PlaceFinder(store, settings, map_folder=map_folder)
    return import_memories(store, source, redact, places, is_dry=is_dry, is_mine=is_mine, is_global=is_global)


def home_settings(folder: Path) -> Settings:
    """Settings of another, empty home."""
    settings = Settings(home=folder / "home", claude_folder=folder / "claude")
    settings.places.prepare()
    return settings
