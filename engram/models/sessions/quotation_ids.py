"""Ids of quotations, which remain valid whatever row ids turns and passages get.

An id is ``q_``, twelve hexadecimal digits of the key of the quoted entry, and the position of the passage's first
character in the entry, also in hexadecimal.
"""

from __future__ import annotations

from functools import lru_cache

from engram.models import tables
from engram.models.engine.packed import entry_key
from engram.models.engine.transaction import Reader
from engram.system.lazy_regex import lazy_regex

#: Numbers of bits of an entry's key that an id leaves out (the lowest ones) and that it contains.
_CUT_BITS, _KEPT_BITS = 16, 48
#: The prefix of every id, and an upper bound. All ids sort between these two, because their digits are hexadecimal.
PREFIX, AFTER_PREFIX = "q_", "q_g"
#: Number of leading characters that the ids of all quotations of an entry have in common.
ENTRY_CHARACTERS = len(PREFIX) + _KEPT_BITS // 4
_QUOTATION = lazy_regex(r"q_([0-9a-f]{12})([0-9a-f]{1,6})")


def quotation_id_of(source: str, position: int) -> str:
    """Return the id of the passage that begins at a character of an entry.

    Args:
        source: id of the entry, or the key of its turn for a queued prompt, which has no id.
        position: in characters; the text blocks of an entry count as one text, with one character between them.
    """
    return f"{quotation_prefix(source)}{position:x}"


def quotation_prefix(source: str) -> str:
    """Return the prefix of the ids of all quotations of an entry."""
    return f"{PREFIX}{cut_key(source):012x}"


def is_quotation_id(text: str) -> bool:
    return _QUOTATION.fullmatch(text) is not None


def parse_quotation_id(text: str) -> tuple[int, int] | None:
    """Return the truncated entry key and the position in a quotation's id; None for any other text."""
    match = _QUOTATION.fullmatch(text)
    return None if match is None else (int(match[1], 16), int(match[2], 16))


@lru_cache(maxsize=2048)
def cut_key(source: str) -> int:
    """Return the part of an entry's key that ids of quotations contain."""
    return (entry_key(source) >> _CUT_BITS) & ((1 << _KEPT_BITS) - 1)


def turns_of_cut_keys(store: Reader, digits: str) -> list[int]:
    """Return the row ids of the turns with an entry whose cut key begins with 1 to 12 hexadecimal digits."""
    free_bits = _KEPT_BITS - 4 * len(digits)
    first = int(digits, 16) << free_bits
    signed = first - (1 << _KEPT_BITS) if first >> (_KEPT_BITS - 1) else first
    last = signed + (1 << free_bits) - 1
    entry = tables.Entry
    between = entry.key.between(signed << _CUT_BITS, ((last + 1) << _CUT_BITS) - 1)
    query = entry.select(entry.turn_id).distinct().where(between)
    return [int(turn_id) for turn_id in store.fetch_values(query.order_by(entry.turn_id))]
