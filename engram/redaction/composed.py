"""Find secrets by their composition alone.

These are made-up passwords, lists of key bytes, network join codes, and licence and recovery keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.public_labels import is_labelled_public, is_public
from engram.redaction.values import Span, has_digit, is_expression, is_placeholder, total_bits
from engram.system.lazy_regex import lazy_regex

_SYMBOLS = "!@#$%^&*"
#: A symbol next to a letter or digit; a pair of asterisks is Markdown.
_SYMBOL = lazy_regex(r"[!@#$%^&*](?:(?<=[A-Za-z0-9][!@#$%^&*])(?<!\*(?=\*))|(?=[A-Za-z0-9])(?<!\*\*))")
#: A symbol inside a word; a word with letters of both cases and digits, and without signs of code; its greatest length.
_INNER_SYMBOL = lazy_regex(r"(?<=[^\W_])[!@#$%^&*+~?](?=[^\W_])")
_MADE_UP = lazy_regex(
    r"(?![^%]{0,30}%[0-9A-Fa-f]{2})(?=\D{0,30}\d)(?=[^A-Z]{0,30}[A-Z])(?=[^a-z]{0,30}[a-z])"
    r"[^\s\"'`<>(){}\[\]/\\|;:=]{8,32}[.,;:!?]?(?!\S)"
)
_LONGEST_MADE_UP = 33
_DIGIT = lazy_regex(r"[0-9]")
_TOKEN = lazy_regex(r"[^\s\"'`<>(){}\[\],;|]{1,64}")
_EDGE = " \t\n\r\"'`<>(){}[],;|="
#: Look-alikes: references, scopes, versions, percentages, money, addresses, paths, operators, escapes in URLs.
_HARMLESS = lazy_regex(
    r".*(?:://|//|\\|\.\.|&&|\$\{|%[0-9A-Fa-f]{2}|&#?\w+;?|\*\*|::|->|!=|[+*%^&]=).*|@.*|#.*|\$\w+|%\w+|"
    r".*@[\w-]*\.[\w.-]+|[\w./@-]+[@#]v?\d[\w.+-]*|[\w.-]+#[LRC\d][\w-]*|[\w.-]+@[A-Za-z][\w./-]*|&[\w.]+|"
    r"\*+[\w.]+\*?|[\w.]+[*]+|\^?\d[\w.]*|.*/.*/.*|[\w.]+[%]|[A-Za-z_][\w.]*[*&^%][A-Za-z_0-9][\w.]*|"
    r"[A-Z]+-?\d+[!*]?|[A-Za-z]{1,3}\d{1,2}[!*]?|[\w.-]+#[A-Za-z][\w-]*|![A-Za-z_][\w.]*|[A-Za-z_][\w.]*\$\d{1,3}|"
    r".*M-\^?[A-Z].*|.*M-.M-.*|.*(?:A-[FZ]|a-[fz]|0-9){2}.*|\d[\d.]*\*[A-Za-z_]\w*\.[A-Za-z_]\w*"
)
_GROUPS = lazy_regex(r"(?<![\w-])(?:[A-Z0-9]{2,6}-)?[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){3,8}(?![\w-])")
#: Groups of letters, as in the recovery key of an encrypted disk, and the maximum evidence (in bits) for random ones.
_LETTER_GROUPS = lazy_regex(r"(?<![\w-])(?:[a-z]{8}(?:-[a-z]{8}){5,7}|[a-z]{6}(?:-[a-z]{6}){5,7})(?![\w-])")
_RANDOM = -9.0
_SHORT = lazy_regex(
    r"(?<![\w./#+~-])(?=[A-Za-z]{0,15}[0-9])[A-Za-z0-9][A-Za-z0-9~+_-]{11,14}[A-Za-z0-9~+=](?![\w./+~(-])"
)
_BYTES = lazy_regex(r"\[?\s?(?:\d{1,3}\s?,\s?){31,63}\d{1,3}\s?\]?")
#: A part that every licence key contains, and a part that every list of bytes contains.
_HYPHENS = lazy_regex(r"-[A-Z0-9]{4,6}-[A-Z0-9]{4,6}-|-[a-z]{6,8}-[a-z]{6,8}-[a-z]{6,8}-[a-z]{6,8}-")
_NUMBERS = lazy_regex(r"[0-9]\s?,\s?[0-9]{1,3}\s?,\s?[0-9]{1,3}\s?,")
_JOIN = lazy_regex(r"WIFI:[^\n]{0,120}?P:([^;\n]{4,63});")


def composed_spans(text: str) -> Iterator[Span]:
    """Yield the spans of 32- and 64-byte keys written as numbers, and of Wi-Fi codes; both may contain spaces."""
    if "WIFI:" in text:
        for join in _JOIN.finditer(text):
            yield Span(*join.span(1), "password")
    for numbers in _BYTES.finditer(text) if text.count(",") >= 31 and _NUMBERS.search(text) else ():
        values = [int(n) for n in re.findall(r"\d+", numbers.group())]
        if len(values) in (32, 64) and 127 < max(values) <= 255 and len(set(values)) > len(values) // 2:
            yield Span(*numbers.span(), "key-bytes")


def word_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans inside single words: passwords with four character classes, licence keys, short random tokens."""
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
            parts = groups.group().split("-")
            mixed = [part for part in parts if not part.isdigit() and not part.isalpha()]
            if len(mixed) >= 2 or _is_unlocking(parts):
                yield Span(groups.start(), groups.end(), "license-key")
        for groups in _LETTER_GROUPS.finditer(text, start, end):
            if total_bits(groups.group()) < _RANDOM:
                yield Span(groups.start(), groups.end(), "license-key")
    for token in _SHORT.finditer(text, start, end):
        if is_drawn(token.group()):
            yield Span(token.start(), token.end(), "")


def may_be_made_up(word: str) -> bool:
    """Return False for a word in which neither ``word_spans`` nor ``made_up_places`` finds anything."""
    return len(word) >= 8 and (has_digit(word) or word.count("-") >= 5)


def made_up_places(lines: str) -> Iterator[int]:
    """Yield the position of each word that looks made up in a list of words, one per line; it may be a password."""
    for symbol in _INNER_SYMBOL.finditer(lines):
        floor = max(0, symbol.start() - _LONGEST_MADE_UP)
        first = lines.rfind("\n", floor, symbol.start()) + 1 or floor
        if (not first or lines[first - 1] == "\n") and _MADE_UP.match(lines, first):
            yield first


def placed_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of ``word_spans`` that their surroundings do not mark as public."""
    for span in word_spans(text, start, end):
        if span.kind or not (is_public(text, span.start, span.end) or is_labelled_public(text, span.start, span.end)):
            yield span


def is_drawn(value: str) -> bool:
    """Return True if a short token mixes upper case, lower case and digits (two of each) as only chance does."""
    counts = (sum(map(str.islower, value)), sum(map(str.isupper, value)), sum(map(str.isdigit, value)))
    return min(counts) >= 2 and total_bits(value) < -9.0


def is_composed(value: str) -> bool:
    """Return True if a value mixes upper case, lower case, digits and symbols as only passwords do."""
    if not 8 <= len(value) <= 48 or not any(c.isdigit() for c in value):
        return False
    if not (any(c.islower() for c in value) and any(c.isupper() for c in value)):
        return False
    if not any(c in _SYMBOLS for c in value) or not value.isascii():
        return False
    return not (_HARMLESS.fullmatch(value) or is_placeholder(value) or is_expression(value))


def _is_unlocking(parts: list[str]) -> bool:
    """Return True if groups of digits are the recovery key of an encrypted disk, which has eight groups of six."""
    return len(parts) == 8 and all(len(p) == 6 and p.isdigit() for p in parts)
