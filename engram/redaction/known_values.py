"""Remember the values in `.env` lines as hashes, and find these values again in other text.

An entry is `salt ‖ length ‖ digest`: 2 bytes with the length in characters (the top bit is set if the value contains
white space) and 16 bytes of BLAKE2b, keyed only by the salt. Because of the length, a search only hashes strings that
can match.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator

from engram.redaction.values import Span, has_plain_shape, is_placeholder, total_bits
from engram.system.lazy_regex import lazy_regex

_DIGEST_BYTES = 16
_LENGTH_BYTES = 2
_SPACED = 0x8000
#: Values with fewer characters are ignored, because they would match ordinary words.
SHORTEST = 6
#: Values are cut to this many characters before hashing.
LONGEST = 4096

_ENV_LINE = lazy_regex(
    # The number or mark that a tool puts before a line, or a file name with or without a line number.
    r"[ \t]*+(?:(?:[^\s:=\"']{1,200}+:)?+(?:\d{1,7}+ ?[:\t→|-][ \t]*+)?+|[+-][ \t]?+)"
    r"(?:export[ \t]++|set[ \t]++|(?:declare|typeset)[ \t]++-\w++[ \t]++|ENV[ \t]++)?"
    r"([A-Za-z_][A-Za-z0-9_.-]{1,80})[ \t]?=[ \t]?(\"[^\"\n]*+\"|"
    r"'[^'\n]*+'|[^\s#][^\n]*+)"
)
#: "NAME=value" in a list, as in the printed settings of a container.
_IN_LIST = lazy_regex(r'[ \t]*+"([A-Za-z_][A-Za-z0-9_]{1,80}=[^"\n]*+)",?[ \t]*+')
_SECRET_NAME = lazy_regex(r"(?i)pass|pwd|secret|token|key|auth|cred|private|salt|pin$|dsn|cookie|sig")
_USER_INFO = lazy_regex(r"://[^\s/@:]*+:([^\s/@]++)@")
_BOUNDARY = lazy_regex(r"(?<![A-Za-z0-9])(?=\S)")


def hash_value(value: str, salt: bytes) -> bytes:
    """Return the entry for `value`: salt, length and digest. The value cannot be recovered from it.

    Args:
        value: the secret; only its first 4,096 characters count.
        salt: 8 to 64 random bytes, the same for a whole session or home, so that searching stays cheap.

    Raises:
        ValueError: the salt has fewer than 8 or more than 64 bytes.
    """
    if not 8 <= len(salt) <= 64:
        raise ValueError(f"a salt has 8 to 64 bytes, not {len(salt)}")
    value = value[:LONGEST]
    size = len(value) | (_SPACED if any(c.isspace() for c in value) else 0)
    return salt + size.to_bytes(_LENGTH_BYTES, "big") + _digest(value, salt)


def _digest(value: str, salt: bytes) -> bytes:
    body = value.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(body, key=salt, digest_size=_DIGEST_BYTES).digest()


def env_values(text: str) -> list[str]:
    """Return the values in `.env`-like lines (`NAME=value`, with or without `export` and quotes) to mask later.

    A line may be numbered, as in the output of tools that read a file, or come from a search (`.env:3:NAME=value`), a
    diff, a shell's declarations or a container's settings. Values that are not secrets are left out: placeholders,
    numbers, paths, versions, and plain words with a harmless name. For a URL with a password, the password is returned.
    Values are in order, without repetitions.
    """
    if "=" not in text:
        return []
    values: dict[str, None] = {}
    for line in text.replace("\0", "\n").split("\n"):
        if "=" not in line:
            continue
        listed = _IN_LIST.fullmatch(line)
        setting = _ENV_LINE.fullmatch(listed.group(1) if listed else line)
        if not setting:
            continue
        name, value = setting.group(1), setting.group(2).strip()
        value = value[1:-1] if value[:1] in "\"'" else value.split(" #", 1)[0].rstrip()
        info = _USER_INFO.search(value)
        if info:
            value = info.group(1)
        if _is_worth_masking("password" if info else name, value):
            values[value] = None
    return list(values)


def _is_worth_masking(name: str, value: str) -> bool:
    if len(value) < SHORTEST or is_placeholder(value) or has_plain_shape(value):
        return False
    if _SECRET_NAME.search(name):
        return not value.isalpha() or len(value) >= 8
    return "://" not in value and len(value) >= 12 and total_bits(value) < -4.0


def known_spans(text: str, known: Collection[bytes]) -> Iterator[Span]:
    """Yield the spans of `text` that have their hash in `known`; a value must begin and end at a word boundary."""
    by_salt: dict[bytes, tuple[set[bytes], set[int], set[int]]] = {}
    for entry in known:
        salt = entry[: -_DIGEST_BYTES - _LENGTH_BYTES]
        if not 8 <= len(salt) <= 64:
            continue
        size = int.from_bytes(entry[len(salt) : len(salt) + _LENGTH_BYTES], "big")
        digests, tight, spaced = by_salt.setdefault(salt, (set(), set(), set()))
        digests.add(entry[-_DIGEST_BYTES:])
        (spaced if size & _SPACED else tight).add(size & ~_SPACED)
    for salt, (digests, tight, spaced) in by_salt.items():
        yield from _search(text, salt, digests, sorted(tight), sorted(spaced))


def _search(text: str, salt: bytes, digests: set[bytes], tight: list[int], spaced: list[int]) -> Iterator[Span]:
    tried: dict[str, bool] = {}
    for start, room in _starts(text):
        sizes = tight[: bisect_right(tight, room)] + spaced if spaced else tight[: bisect_right(tight, room)]
        for size in sizes:
            stop = start + size
            if stop > len(text) or (stop < len(text) and text[stop].isalnum() and text[stop - 1].isalnum()):
                continue
            value = text[start:stop]
            hit = tried.get(value)
            if hit is None:
                hit = tried[value] = _digest(value, salt) in digests
            if hit:
                yield Span(start, stop, "known-value")


def _starts(text: str) -> Iterator[tuple[int, int]]:
    """Yield each position where a value may begin, and the number of characters after it without white space."""
    for run in re.finditer(r"\S+", text):
        for edge in _BOUNDARY.finditer(text, run.start(), run.end()):
            yield edge.start(), run.end() - edge.start()
