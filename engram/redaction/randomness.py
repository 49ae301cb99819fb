"""Estimate whether a run of characters is random or was written by a person.

Every pair of neighbours gives evidence in bits: for a pair of letters, its frequency in English and in identifiers
compared with chance; for a change between capitals, small letters and digits, a fixed value. The sum is negative for
random strings, and more certain the longer the string.
"""

from __future__ import annotations

from functools import lru_cache

#: One row for each first letter, one digit for each second letter: 4.5 is chance, 1.2 steps are one bit.
_LETTER_PAIRS = [
    "05650140402656050767332230",
    "63436111650722630553601040",
    "60316106406521810536510020",
    "62248220700412620453510020",
    "52563430200546142776032520",
    "50336610800521710645501030",
    "51228145600535420663510000",
    "70128100601332700535400020",
    "43554440000558640466040204",
    "60328200504100720261700020",
    "52338241700504330373305020",
    "61248300700611630155410050",
    "74138000601341660043400010",
    "60666470503313520167430010",
    "24551330303557450755534200",
    "70327203501601650746401040",
    "10221001100402114451901000",
    "61448240603344620465321040",
    "40527225603322551167502030",
    "61327206700321530654402040",
    "45435330400657350666000000",
    "81209110700121410221011000",
    "71346206700305620652002100",
    "53636413600431370348121440",
    "34435321500556470476134022",
    "60229200700332530122100021",
]

#: Bits for a change of class; camelCase and digits at the end of a word are common, alternation is not.
_CLASS_CHANGE = {"lu": -1.0, "ld": -2.2, "ud": -2.4, "dl": -2.6, "du": -2.6, "dd": 1.0}


def _pair_bits() -> dict[str, float]:
    bits: dict[str, float] = {}
    letters = "abcdefghijklmnopqrstuvwxyz"
    every = letters + letters.upper() + "0123456789"
    for first in every:
        for second in every:
            kinds = _kind(first) + _kind(second)
            if kinds in _CLASS_CHANGE:
                bits[first + second] = _CLASS_CHANGE[kinds]
            else:
                row = _LETTER_PAIRS[ord(first.lower()) - 97]
                bits[first + second] = (int(row[ord(second.lower()) - 97]) - 4.5) / 1.2
    return bits


def _kind(char: str) -> str:
    if char.isdigit():
        return "d"
    return "u" if char.isupper() else "l"


_PAIR_BITS = _pair_bits()


@lru_cache(maxsize=8192)
def evidence_bits(piece: str) -> float:
    """Return the bits of evidence that `piece` (ASCII letters and digits) was written: negative for random strings.

    Pairs with any other character count nothing.
    """
    bits = 0.0
    get = _PAIR_BITS.get
    previous = ""
    for char in piece:
        bits += get(previous + char, 0.0)
        previous = char
    return bits
