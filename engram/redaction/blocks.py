"""Secrets that span lines: key blocks with a header, and what the user put between private tags."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.placeholders import Span

_PRIVATE_TAG = re.compile(r"<(/?)private(?:\s[^<>]{0,200})?>", re.IGNORECASE)
_BEGIN = re.compile(r"-----BEGIN ([A-Z0-9 ]{0,40}?)(PRIVATE KEY|PRIVATE KEY BLOCK|OpenVPN Static key V1)-----")
#: Dropping a part may join the halves of another tag. After so many times the rest is dropped.
_MOST_TAGS_WITHIN_TAGS = 8
#: The body of a key block: base64 or hex lines, headers, real or escaped line ends, a quotation mark at each line.
_BODY = re.compile(r"(?:[A-Za-z0-9+/=_.\s\"'>|#\\,;+-]|: )*")
_PUTTY = re.compile(r"Private-(?:Lines: \d+|MAC: )")
_PUTTY_BODY = re.compile(r"[A-Za-z0-9+/=\s]{1,8000}")
#: A key block without an end is masked for at most this many characters.
_MAX_BLOCK_CHARS = 65_536


def drop_private(text: str) -> str:
    """Return the text without the parts between `<private>` and `</private>`; an unclosed one drops the rest.

    Tags may nest, carry attributes and be written in any case; a closing tag alone is dropped by itself.
    """
    if "private" not in text and "private" not in text.lower():
        return text
    for _ in range(_MOST_TAGS_WITHIN_TAGS):
        kept = _without_private(text)
        if kept == text:
            return text
        text = kept
    tag = _PRIVATE_TAG.search(text)
    return text[: tag.start()] if tag else text


def _without_private(text: str) -> str:
    parts: list[str] = []
    depth = 0
    at = 0
    for tag in _PRIVATE_TAG.finditer(text):
        if depth == 0:
            parts.append(text[at : tag.start()])
        depth = max(0, depth - 1) if tag.group(1) else depth + 1
        at = tag.end()
    if depth == 0:
        parts.append(text[at:])
    return "".join(parts)


def key_blocks(text: str) -> Iterator[Span]:
    """Yield the spans of PEM, OpenSSH, PGP and OpenVPN private keys (also quoted, escaped or cut off) and of PuTTY's
    lines.
    """
    if "-----BEGIN" in text:
        done = 0
        ends: dict[str, int] = {}
        for begin in _BEGIN.finditer(text):
            if begin.start() < done:
                continue
            done = _block_end(text, begin, ends)
            yield Span(begin.start(), done, "private-key")
    if "Private-" in text:
        for line in _PUTTY.finditer(text):
            body = _PUTTY_BODY.match(text, line.end())
            if body:
                yield Span(line.end(), _trim_right(text, body.end()), "private-key")


def _block_end(text: str, begin: re.Match[str], ends: dict[str, int]) -> int:
    """Return where a block ends; ``ends`` holds where each footer was found last, so that none is searched twice."""
    footer = f"-----END {begin.group(1)}{begin.group(2)}-----"
    limit = min(len(text), begin.end() + _MAX_BLOCK_CHARS)
    if ends.get(footer, -1) < begin.end():
        found = text.find(footer, begin.end())
        ends[footer] = found if found >= 0 else len(text)
    end = ends[footer]
    if end + len(footer) <= limit:
        return end + len(footer)
    body = _BODY.match(text, begin.end(), limit)
    return _trim_right(text, body.end() if body else begin.end())


def _trim_right(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end
