"""Secrets recognised by their composition alone: made-up passwords, lists of key bytes, network join codes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.placeholders import Span
from engram.redaction.values import is_expression, is_placeholder, total_bits

_SYMBOLS = "!@#$%^&*"
#: A sign with a letter or digit beside it; a pair of asterisks is Markdown.
_SYMBOL = re.compile(r"[!@#$%^&*](?:(?<=[A-Za-z0-9][!@#$%^&*])(?<!\*(?=\*))|(?=[A-Za-z0-9])(?<!\*\*))")
_DIGIT = re.compile(r"[0-9]")
_TOKEN = re.compile(r"[^\s\"'`<>(){}\[\],;|]{1,64}")
_EDGE = " \t\n\r\"'`<>(){}[],;|="
#: Look-alikes: references, scopes, versions, shares, money, addresses, paths, operators, escapes of URLs.
_HARMLESS = re.compile(
    r".*(?:://|//|\\|\.\.|&&|\$\{|%[0-9A-Fa-f]{2}|&#?\w+;?|\*\*|::|->|!=|[+*%^&]=).*|@.*|#.*|\$\w+|%\w+|"
    r".*@[\w-]*\.[\w.-]+|[\w./@-]+[@#]v?\d[\w.+-]*|[\w.-]+#[LRC\d][\w-]*|[\w.-]+@[A-Za-z][\w./-]*|&[\w.]+|"
    r"\*+[\w.]+\*?|[\w.]+[*]+|\^?\d[\w.]*|.*/.*/.*|[\w.]+[%]|[A-Za-z_][\w.]*[*&^%][A-Za-z_0-9][\w.]*|"
    r"[A-Z]+-?\d+[!*]?|[A-Za-z]{1,3}\d{1,2}[!*]?|[\w.-]+#[A-Za-z][\w-]*|![A-Za-z_][\w.]*|[A-Za-z_][\w.]*\$\d{1,3}|"
    r".*M-\^?[A-Z].*"
)
_GROUPS = re.compile(r"(?<![\w-])[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){3,8}(?![\w-])")
_SHORT = re.compile(
    r"(?<![\w./#+~-])(?=[A-Za-z]{0,15}[0-9])[A-Za-z0-9][A-Za-z0-9~+_-]{11,14}[A-Za-z0-9~+=](?![\w./+~(-])"
)
_BYTES = re.compile(r"\[?\s?(?:\d{1,3}\s?,\s?){31,63}\d{1,3}\s?\]?")
#: A part of every licence key, and of every list of bytes.
_HYPHENS = re.compile(r"-[A-Z0-9]{4,6}-[A-Z0-9]{4,6}-")
_NUMBERS = re.compile(r"[0-9]\s?,\s?[0-9]{1,3}\s?,\s?[0-9]{1,3}\s?,")
_JOIN = re.compile(r"WIFI:[^\n]{0,120}?P:([^;\n]{4,63});")


def composed_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of 32- and 64-byte keys written as numbers, and of Wi-Fi codes; they may contain blanks."""
    if "WIFI:" in text:
        for join in _JOIN.finditer(text, start, end):
            yield Span(*join.span(1), "password")
    if text.count(",") >= 31 and _NUMBERS.search(text, start, end):
        yield from _byte_lists(text, start, end)


def word_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans inside single words: passwords of four classes of characters, licence keys, short drawn
    tokens.
    """
    at = start
    for symbol in _SYMBOL.finditer(text, start, end):
        if symbol.start() < at:
            continue
        first = symbol.start()
        floor = max(start, first - 64)
        if not _DIGIT.search(text, floor, first + 64):
            continue
        while first > floor and text[first - 1] not in _EDGE:
            first -= 1
        token = _TOKEN.match(text, first, end)
        if token:
            at = token.end()
            last = at
            while last > first and text[last - 1] in ".,:;?":
                last -= 1
            if is_composed(text[first:last]):
                yield Span(first, last, "password")
    if _HYPHENS.search(text, start, end):
        for groups in _GROUPS.finditer(text, start, end):
            mixed = [g for g in groups.group().split("-") if not g.isdigit() and not g.isalpha()]
            if len(mixed) >= 2:
                yield Span(groups.start(), groups.end(), "license-key")
    for token in _SHORT.finditer(text, start, end):
        if is_drawn(token.group()):
            yield Span(token.start(), token.end(), "")


def is_drawn(value: str) -> bool:
    """Return whether a short token has capitals, small letters and digits (two of each) mixed in a way that only chance
    produces.
    """
    counts = (sum(map(str.islower, value)), sum(map(str.isupper, value)), sum(map(str.isdigit, value)))
    return min(counts) >= 2 and total_bits(value) < -9.0


def is_composed(value: str) -> bool:
    """Return whether the value has capitals, small letters, digits and symbols in a way that only passwords do."""
    if not 8 <= len(value) <= 48 or not any(c.isdigit() for c in value):
        return False
    if not (any(c.islower() for c in value) and any(c.isupper() for c in value)):
        return False
    if not any(c in _SYMBOLS for c in value) or not value.isascii():
        return False
    return not (_HARMLESS.fullmatch(value) or is_placeholder(value) or is_expression(value))


def _byte_lists(text: str, start: int, end: int) -> Iterator[Span]:
    for numbers in _BYTES.finditer(text, start, end):
        values = [int(n) for n in re.findall(r"\d+", numbers.group())]
        if len(values) in (32, 64) and max(values) <= 255 and max(values) > 127 and len(set(values)) > len(values) // 2:
            yield Span(numbers.start(), numbers.end(), "key-bytes")
