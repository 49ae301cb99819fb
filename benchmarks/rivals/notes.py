"""Transcripts as Markdown, for programs that store notes. A model would write those; here, they are verbatim."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Exchange:
    """What a person typed, and what the agent said until the next prompt."""

    session: str
    #: ISO time of the prompt, to the minute.
    at: str
    prompt: str
    said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return both as Markdown without headings."""
        return re.sub(r"(?m)^#+ ", "", "\n\n".join([f"User: {self.prompt}", *self.said]))


def read_exchanges(transcript: Path) -> Iterator[Exchange]:
    """Yield the exchanges in a transcript of Claude Code; the output of tools is left out."""
    open_exchange: Exchange | None = None
    for line in transcript.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict) or entry.get("type") not in ("user", "assistant"):
            continue
        text = _said(entry)
        if not text:
            continue
        if entry["type"] == "user":
            if open_exchange is not None:
                yield open_exchange
            open_exchange = Exchange(transcript.stem, str(entry.get("timestamp"))[:16], text)
        elif open_exchange is not None:
            open_exchange.said.append(text)
    if open_exchange is not None:
        yield open_exchange


def session_files(projects: Path) -> Iterator[tuple[str, Path]]:
    """Yield Claude Code's name for the folder, and the transcript, of every session except those of subagents."""
    for path in sorted(projects.glob("*/*.jsonl")):
        yield path.parent.name, path


def _said(entry: dict[str, Any]) -> str:
    content = (entry.get("message") or {}).get("content") or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return "\n".join(block.get("text", "") for block in blocks if block.get("type") == "text").strip()
