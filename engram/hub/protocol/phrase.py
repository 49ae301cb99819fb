"""Keys and codes as people read and type them."""

from __future__ import annotations

import hashlib
import re
import secrets

from engram.errors import BadRequest

_CONSONANTS, _VOWELS = "bdfghjklmnprstvz", "aiou"
#: Letters of codes: none that looks like another.
_LETTERS = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
#: Letters of the half of a code that the hub gets, and of the half that it never gets; two of these are a check.
HUB_LETTERS, KEY_LETTERS = 10, 18


def phrase_of(key: bytes) -> str:
    """Return a key as words of five letters, two bytes each; the last one is a check."""
    data = key + _check(key)
    return " ".join(_word(data[i] << 8 | data[i + 1]) for i in range(0, len(data), 2))


def key_of(phrase: str) -> bytes:
    """Return the key of a phrase. Raises BadRequest where a word is mistyped."""
    words = re.findall(r"[a-z]+", phrase.lower())
    try:
        data = b"".join(_number(word).to_bytes(2) for word in words)
    except ValueError as error:
        raise BadRequest(f"the recovery phrase is mistyped: {error}") from error
    if len(data) != 34 or _check(data[:-2]) != data[-2:]:
        raise BadRequest("the recovery phrase is mistyped: it has 17 words of five letters, and one of them is wrong")
    return data[:-2]


def new_code() -> tuple[str, str]:
    """Return the two halves of a one-time code: the hub's, and the key's."""
    hub_half, key_half = _random(HUB_LETTERS), _random(KEY_LETTERS - 2)
    return hub_half, key_half + _check_letters(hub_half + key_half)


def code_text(hub_half: str, key_half: str = "") -> str:
    """Return a code as it is shown: groups of letters."""
    text = hub_half + key_half
    return "-".join(text[i : i + 4] for i in range(0, len(text), 4))


def split_code(text: str) -> tuple[str, str]:
    """Return the two halves of a code that somebody typed; the second is "" for a new member's code.

    Raises:
        BadRequest: it is no code.
    """
    letters = re.sub(r"[\s-]", "", text.upper())
    if len(letters) not in (HUB_LETTERS, HUB_LETTERS + KEY_LETTERS) or set(letters) - set(_LETTERS):
        raise BadRequest("this is no code of a hub: a code has 10 or 28 letters and digits")
    if len(letters) > HUB_LETTERS and _check_letters(letters[:-2]) != letters[-2:]:
        raise BadRequest("the code is mistyped; nothing was changed")
    return letters[:HUB_LETTERS], letters[HUB_LETTERS:]


def code_hash(hub_half: str) -> bytes:
    """Return what the hub keeps of a code."""
    return hashlib.sha256(b"engram code " + hub_half.encode()).digest()


def _random(count: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(count))


def _check_letters(text: str) -> str:
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4, person=b"engram code").digest())
    return _LETTERS[number % len(_LETTERS)] + _LETTERS[number // len(_LETTERS) % len(_LETTERS)]


def _check(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=2, person=b"engram phrase").digest()


def _word(number: int) -> str:
    c, v = _CONSONANTS, _VOWELS
    return c[number >> 12] + v[number >> 10 & 3] + c[number >> 6 & 15] + v[number >> 4 & 3] + c[number & 15]


def _number(word: str) -> int:
    if len(word) != 5:
        raise ValueError(f"{word!r} has not five letters")
    number = 0
    for place, letter in enumerate(word):
        letters, bits = (_VOWELS, 2) if place % 2 else (_CONSONANTS, 4)
        if letter not in letters:
            raise ValueError(f"{word!r} is none of its words")
        number = number << bits | letters.index(letter)
    return number
