"""The placeholders that replace secrets, and the spans of text to be replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

#: A placeholder in redacted text: never masked again, never split.
MARK = re.compile(r"\[(?:secret:[a-z][a-z-]{1,30}|opaque:\d{1,9})\]")


class Span(NamedTuple):
    """A part of a text to mask: from `start` up to `end`, and the kind of secret ("" = opaque)."""

    start: int
    end: int
    kind: str


def placeholder_for(span: Span) -> str:
    """Return the placeholder for a span: `[secret:KIND]`, or `[opaque:LENGTH]` if its kind is unknown."""
    return f"[secret:{span.kind}]" if span.kind else f"[opaque:{span.end - span.start}]"


def merge(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, overlapping ones joined; a named kind wins over an opaque one."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if span.end <= span.start:
            continue
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.kind or span.kind)
        else:
            merged.append(span)
    return merged


def outside_placeholders(text: str, spans: list[Span]) -> list[Span]:
    """Return the parts of the (merged) spans that are not placeholders already."""
    if "[secret:" not in text and "[opaque:" not in text:
        return spans
    kept: list[Span] = []
    marks = [m.span() for m in MARK.finditer(text)]
    at = 0
    for span in spans:
        start = span.start
        while at < len(marks) and marks[at][1] <= start:
            at += 1
        ahead = at
        while ahead < len(marks) and marks[ahead][0] < span.end:
            kept.append(Span(start, marks[ahead][0], span.kind))
            start = marks[ahead][1]
            ahead += 1
        kept.append(Span(start, span.end, span.kind))
    return [s for s in kept if any(c.isalnum() for c in text[s.start : s.end])]


def hide_marks(text: str) -> str:
    """Return the text, of the same length, with blanks for placeholders: what they name is masked already."""
    if "[secret:" not in text and "[opaque:" not in text:
        return text
    return MARK.sub(lambda mark: "[" + " " * (len(mark.group()) - 2) + "]", text)


def replace(text: str, spans: list[Span]) -> str:
    """Return the text with each of the ordered, disjoint spans replaced by its placeholder."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += (text[at : span.start], placeholder_for(span))
        at = span.end
    parts.append(text[at:])
    return "".join(parts)
