"""What of a prompt the user typed themselves, and why a passage is not to be trusted."""

from __future__ import annotations

import re

_FENCED = re.compile(r"(```|~~~|\"\"\").*?(?:\1|\Z)", re.DOTALL)
_RELAYED = re.compile(
    r"^\s*(?:implement the following plan|here(?:'s| is) (?:the|a) (?:plan|issue|log|output|error))", re.IGNORECASE
)
_QUOTE_LINE = re.compile(r"^\s*[>|].*$", re.MULTILINE)
#: A prompt longer than this, in characters, was not typed by hand.
TYPED_CHARS = 3_000


def typed_text(prompt: str) -> str:
    """The part of a prompt that the user typed: without code blocks, quotes and pasted plans; lines stay."""
    relayed = _RELAYED.search(prompt)
    if relayed:
        prompt = prompt[: relayed.start()]
    if len(prompt) > TYPED_CHARS:
        return ""
    text = _FENCED.sub(lambda m: "\n" * m[0].count("\n"), prompt)
    return _QUOTE_LINE.sub("", text)


def why_suspect(text: str, *, is_typed: bool) -> str:
    """Why a text must never be injected by itself; "" where nothing speaks against it."""
    if is_typed:
        return ""
    if re.search(r"\bignore (?:all|any|the|previous|prior|above)\b", text, re.IGNORECASE):
        return "asks to ignore instructions"
    if re.search(r"[A-Za-z0-9+/]{60,}={0,2}", text):
        return "holds encoded data"
    return ""
