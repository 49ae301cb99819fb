"""The sentence splitter of search excerpts: spans of a verbatim text, so that an excerpt stays word for word. Pure."""

from __future__ import annotations

import re

_BREAK = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z0-9`*_\"'(\[-])|\n+")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return start and stop of each sentence that is not blank; colons, semicolons and line breaks end one too."""
    spans, position = [], 0
    for match in [*_BREAK.finditer(text), None]:
        stop = match.start() if match else len(text)
        if text[position:stop].strip():
            spans.append((position, stop))
        position = match.end() if match else stop
    return spans
