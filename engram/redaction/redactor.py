"""The function that all text passes: apply every rule, join the spans, insert placeholders."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Iterator, Sequence

from engram.redaction.assignments import named_spans
from engram.redaction.blocks import drop_private, key_blocks
from engram.redaction.commands import command_spans
from engram.redaction.composed import composed_spans, word_spans
from engram.redaction.known import SHORTEST, known_spans
from engram.redaction.links import link_spans
from engram.redaction.opaque import opaque_spans
from engram.redaction.phrases import phrase_spans
from engram.redaction.placeholders import Span, hide_marks, merge, outside_placeholders, replace
from engram.redaction.words import NAME, PASSWORD, TOKEN, places

#: Text is processed in windows of this many characters, so that no rule sees more.
WINDOW = 65_536
#: Neighbouring windows overlap by this many characters, so that nothing is cut at their boundary.
OVERLAP = 4_096
#: Masking may create new neighbours. The rules are applied until nothing changes, at most this many times.
_ROUNDS = 8
#: Kinds of values whose repetitions in the same text are masked too, and the most values searched.
_TOLD = frozenset({"password", "token", "code"})
_REPEATED = 40
#: Between parts that are read together: no rule finds anything that reaches over a control character.
_BETWEEN = "\n\x1e\n"
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def redact(text: str, known: Collection[bytes] = ()) -> str:
    """Return the text without secrets: each is replaced by a placeholder such as `[secret:aws-key]` or `[opaque:40]`.

    Everything between `<private>` tags is dropped. Redacting twice changes nothing more. Never fails; the time is
    proportional to the length of the text.

    Args:
        text: any text, of any length.
        known: entries made by `hash_value` of values seen in `.env` lines; they are masked everywhere.
    """
    for _ in range(_ROUNDS):
        cleaned = _once(text, known)
        if cleaned == text:
            return text
        text = cleaned
    return text


def redact_parts(parts: Sequence[str], redact_text: Callable[[str], str] = redact) -> list[str]:
    """Return the parts of one text without secrets: as ``redact`` returns each, at a third of the time for most.

    Secrets are rare: the parts are read together, and one by one only where there is anything to replace.
    """
    together = _BETWEEN.join(parts)
    return list(parts) if redact_text(together) == together else [redact_text(part) for part in parts]


def _once(text: str, known: Collection[bytes]) -> str:
    text = drop_private(text)
    spans = merge(key_blocks(text))
    if spans:
        text = replace(text, outside_placeholders(text, spans))
    all_spans: list[Span] = []
    for window, offset in _windows(text):
        all_spans += (Span(s.start + offset, s.end + offset, s.kind) for s in _window_spans(window, known))
    spans = merge(all_spans)
    if spans:
        spans = merge([*spans, *_repetitions(text, spans)])
    return replace(text, outside_placeholders(text, spans)) if spans else text


def _repetitions(text: str, spans: list[Span]) -> Iterator[Span]:
    """Yield the repetitions, without a name, of values that were introduced by name or are passwords."""
    values = {text[s.start : s.end]: s.kind for s in spans if s.kind in _TOLD and SHORTEST <= s.end - s.start <= 200}
    for value, kind in list(values.items())[:_REPEATED]:
        if value.isalpha() or value.isdigit():
            continue
        at = text.find(value)
        while at >= 0:
            after = text[at + len(value) : at + len(value) + 1]
            if not (at and text[at - 1].isalnum()) and not after.isalnum():
                yield Span(at, at + len(value), kind)
            at = text.find(value, at + len(value))


def _windows(text: str) -> Iterator[tuple[str, int]]:
    if len(text) <= WINDOW:
        yield text, 0
        return
    for start in range(0, len(text), WINDOW - OVERLAP):
        yield text[start : start + WINDOW], start


def _window_spans(text: str, known: Collection[bytes]) -> Iterator[Span]:
    low = text.lower()
    if len(low) != len(text):
        low = text.translate(_ASCII_LOWER)
    low = hide_marks(low)
    size = len(text)
    looked = list(places(text, low))
    for start, end, look in looked:
        if look & TOKEN:
            yield from opaque_spans(text, start, end)
    for start, end, look in looked:
        if look & NAME:
            yield from named_spans(text, low, start, end)
        if look & PASSWORD:
            yield from word_spans(text, start, end)
    yield from command_spans(text, low, 0, size)
    yield from composed_spans(text, 0, size)
    yield from phrase_spans(text, low, 0, size)
    if "://" in text:
        yield from link_spans(text, 0, size)
    if known:
        yield from known_spans(text, known)
