"""Encode and decode the small requests and responses as JSON.

Unknown keys are ignored, so that both sides can be extended.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.errors import BadRequest

#: Header in which a response repeats its request's id; a response from a cache or a replay has another id.
REQUEST_HEADER = "Engram-Request"
#: What a member of a space may do, from least to most.
ROLES = ("reader", "writer", "keeper")
#: Reasons for which a memory can be reported. The set is closed, so that the hub gets no text from members.
REPORT_REASONS = ("secret", "wrong", "instruction", "other")
KINDS = ("private", "team", "pack")


@dataclass(frozen=True, slots=True)
class SpaceFacts:
    """A space according to the hub, for one member."""

    ns_id: int
    name: str
    #: private, team or pack.
    kind: str
    #: reader, writer or keeper.
    role: str
    is_sealed: bool
    #: Id of the key that currently seals it; b"" for an open space, or if no machine has joined it yet.
    key_id: bytes
    #: Position of its newest row.
    head: int
    #: False if the hub doesn't have the last mark that the machine saw, such as after a restore from an older copy.
    is_known: bool = True
    #: Number of memories that members have reported and no keeper has reviewed yet; 0 unless the member is a keeper.
    reports: int = 0

    def to_json(self) -> dict[str, Any]:
        reported = {"reports": self.reports} if self.reports else {}
        return reported | {
            "ns": self.ns_id,
            "name": self.name,
            "kind": self.kind,
            "role": self.role,
            "sealed": self.is_sealed,
            "key": self.key_id.hex(),
            "head": self.head,
            "known": self.is_known,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SpaceFacts:
        return cls(
            ns_id=_whole(value["ns"]),
            name=_name(value["name"]),
            kind=_one_of(value["kind"], KINDS),
            role=_one_of(value["role"], ROLES),
            is_sealed=bool(value["sealed"]),
            key_id=bytes.fromhex(value["key"])[:8],
            head=_whole(value["head"]),
            is_known=bool(value.get("known", True)),
            reports=_whole(value.get("reports", 0)),
        )


@dataclass(frozen=True, slots=True)
class HelloRequest:
    """The beginning of a round: what the machine last pushed, and the last mark that it saw in each space."""

    #: The ids of its latest pushes that arrived or may have arrived; empty before the first push.
    push_ids: tuple[bytes, ...]
    #: Space → (position, mark); a space without a mark is left out.
    marks: Mapping[int, tuple[int, bytes]]

    def to_json(self) -> dict[str, Any]:
        marks = [[ns_id, seq, mark.hex()] for ns_id, (seq, mark) in self.marks.items()]
        return {"push_ids": [push_id.hex() for push_id in self.push_ids], "marks": marks}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> HelloRequest:
        return cls(
            tuple(bytes.fromhex(text) for text in value["push_ids"]),
            {int(ns_id): (int(seq), bytes.fromhex(mark)) for ns_id, seq, mark in value["marks"]},
        )


@dataclass(frozen=True, slots=True)
class HelloAnswer:
    """The hub's time, whether this machine pushed last, and its spaces."""

    time_ms: int
    device_id: int
    #: False for a copied or restored machine; the machine checks this with ``push_id``.
    is_same: bool
    #: The last push that arrived from this device.
    push_id: bytes
    spaces: tuple[SpaceFacts, ...]

    def to_json(self) -> dict[str, Any]:
        spaces = [space.to_json() for space in self.spaces]
        return {
            "time_ms": self.time_ms,
            "device": self.device_id,
            "same": self.is_same,
            "push_id": self.push_id.hex(),
            "spaces": spaces,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> HelloAnswer:
        return cls(
            time_ms=_whole(value["time_ms"], 1 << 47),
            device_id=_whole(value["device"]),
            is_same=bool(value["same"]),
            push_id=bytes.fromhex(value["push_id"])[:16],
            spaces=tuple(SpaceFacts.from_json(space) for space in value["spaces"]),
        )


@dataclass(frozen=True, slots=True)
class Membership:
    """The hub's response when a machine joins or becomes another device."""

    member_id: int
    member_name: str
    device_id: int
    spaces: tuple[SpaceFacts, ...]
    #: Keys that another machine sealed for this one with the second half of the code; b"" if there are none.
    bundle: bytes = b""

    def to_json(self) -> dict[str, Any]:
        return {
            "member": self.member_id,
            "name": self.member_name,
            "device": self.device_id,
            # Earlier versions of Engram require this key, although the machine chooses the token.
            "token": "",
            "spaces": [space.to_json() for space in self.spaces],
            "bundle": self.bundle.hex(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Membership:
        return cls(
            member_id=_whole(value["member"]),
            member_name=_name(value["name"]),
            device_id=_whole(value["device"]),
            spaces=tuple(SpaceFacts.from_json(space) for space in value["spaces"]),
            bundle=bytes.fromhex(value.get("bundle", "")),
        )


def hash_token(token: str) -> bytes:
    """Return a token's hash. The machine chooses the token and sends only the hash, which the hub stores."""
    return hashlib.sha256(b"engram token " + token.encode()).digest()


def _whole(value: object, most: int = 1 << 62) -> int:
    """Return a number from a message. Raises ValueError for one that is out of range."""
    number = int(str(value))
    if not 0 <= number < most:
        raise ValueError("a number is out of range")
    return number


def _one_of(value: object, known: Sequence[str]) -> str:
    if value not in known:
        raise ValueError(f"{str(value)[:20]!r} is not one of {', '.join(known)}")
    return str(value)


def _name(value: object) -> str:
    """Return a name as a single line of printable characters."""
    return " ".join("".join(char for char in str(value)[:200] if char.isprintable()).split())


def to_bytes(value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def from_bytes(data: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises BadRequest if the bytes are not one."""
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadRequest("this is not JSON") from error
    if not isinstance(value, dict):
        raise BadRequest("this is not a JSON object")
    return value


# -- Convert keys and codes to and from the form in which people read and type them.

_CONSONANTS, _VOWELS = "bdfghjklmnprstvz", "aiou"
#: Characters of codes, no two of which look alike.
_LETTERS = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
#: Number of characters in the half of a code that the hub gets, and in the other half, which ends with a checksum of
#: two characters.
HUB_LETTERS, KEY_LETTERS = 10, 18


def phrase_of(key: bytes) -> str:
    """Return a key as words of five letters, each of which encodes two bytes; the last word is a checksum."""
    data = key + _check(key)
    return " ".join(_word(data[i] << 8 | data[i + 1]) for i in range(0, len(data), 2))


def key_of(phrase: str) -> bytes:
    """Return the key that a phrase encodes. Raises BadRequest if a word is mistyped."""
    words = re.findall(r"[a-z]+", phrase.lower())
    try:
        data = b"".join(_number(word).to_bytes(2) for word in words)
    except ValueError as error:
        raise BadRequest(f"the recovery phrase is mistyped: {error}") from error
    if len(data) != 34 or _check(data[:-2]) != data[-2:]:
        raise BadRequest("the recovery phrase is mistyped: it has 17 words of five letters, and one of them is wrong")
    return data[:-2]


def new_code() -> tuple[str, str]:
    """Return the two halves of a one-time code: the half that the hub gets, and the half that unlocks the keys."""
    hub_half, key_half = _random(HUB_LETTERS), _random(KEY_LETTERS - 2)
    return hub_half, key_half + _check_letters(hub_half + key_half)


def code_text(hub_half: str, key_half: str = "") -> str:
    """Return a code for display, in groups of characters."""
    text = hub_half + key_half
    return "-".join(text[i : i + 4] for i in range(0, len(text), 4))


def split_code(text: str) -> tuple[str, str]:
    """Return the two halves of a code as a person typed it; the second half is "" in a new member's code.

    Raises:
        BadRequest: it is not a code.
    """
    letters = re.sub(r"[\s-]", "", text.upper())
    if len(letters) not in (HUB_LETTERS, HUB_LETTERS + KEY_LETTERS):
        raise BadRequest("this is not a hub's code: a code has 10 or 28 letters and digits")
    if strange := sorted(set(letters) - set(_LETTERS)):
        raise BadRequest(f"the code is mistyped: no code has {' or '.join(strange)}; nothing was changed")
    if len(letters) > HUB_LETTERS and _check_letters(letters[:-2]) != letters[-2:]:
        raise BadRequest("the code is mistyped; nothing was changed")
    return letters[:HUB_LETTERS], letters[HUB_LETTERS:]


def code_hash(hub_half: str) -> bytes:
    """Return the hash of a code, which is all that the hub stores of it."""
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
        raise ValueError(f"{word!r} does not have five letters")
    number = 0
    for place, letter in enumerate(word):
        letters, bits = (_VOWELS, 2) if place % 2 else (_CONSONANTS, 4)
        if letter not in letters:
            raise ValueError(f"{word!r} is not one of its words")
        number = number << bits | letters.index(letter)
    return number
