"""JSON lines: files with one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engram.errors import BadRequest
from engram.system.atomic import write_atomic


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON lines, all of them or none."""
    write_atomic(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines.

    Raises:
        BadRequest: the file can't be read, or a line is not a JSON object; the message gives its number.
    """
    lines: list[dict[str, Any]] = []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadRequest(f"can't read {path}: {error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise BadRequest(f"{path}, line {number}, is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise BadRequest(f"{path}, line {number}, is not a JSON object")
        lines.append(record)
    return lines
