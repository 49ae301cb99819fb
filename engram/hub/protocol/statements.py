"""Statements about memories, with stamps that record when (by a hybrid logical clock) and where each field was decided.

A clock value is milliseconds since 1970, shifted by 16 bits, plus a counter. On one machine, it never goes back, nor
does it fall behind the values that the machine has seen from the same person's other machines.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engram.errors import BadRequest
from engram.system.lazy_regex import lazy_regex

#: Bits of the counter below the milliseconds.
COUNTER_BITS = 16
#: Clocks that differ from the hub's by more than this, in milliseconds, are corrected using the hub's time.
MAX_CLOCK_ERROR_MS = 300_000
#: Stamps that are ahead of the hub's time by more than this, in milliseconds, are renewed before they are sent.
MAX_AHEAD_MS = 7_200_000
#: Stamps that are ahead by more than this, in milliseconds, are refused by the hub.
MAX_ACCEPTED_AHEAD_MS = 86_400_000


class Stamp(NamedTuple):
    """When and where a field was decided. The greater of two stamps wins."""

    hlc: int
    device: int


def clock_of(at_ms: int) -> int:
    """Return the smallest clock value for a time."""
    return max(0, at_ms) << COUNTER_BITS


def next_clock(last: int, at_ms: int) -> int:
    """Return a clock value after ``last`` that is not before a time, in milliseconds since 1970."""
    return max(last + 1, clock_of(at_ms))


def time_of(hlc: int) -> int:
    """Return the time of a clock value, in milliseconds since 1970."""
    return hlc >> COUNTER_BITS


# -- A statement is what one device knows about a memory, field by field, with a stamp for each field.
#
# A statement contains the whole state that its device knows, not just the device's own decisions. Therefore a single
# statement is enough to recreate the memory elsewhere, the order in which statements arrive does not matter, and any
# machine can restore statements that a hub has lost. Two states are joined field by field; the greater stamp wins.

#: Format of the statements that this program writes. Statements in a higher format are set aside until the program is
#: updated.
FORMAT = 1
#: The text written by hand, and the text written by an extractor, which counts only if none was written by hand.
TEXT, EXTRACTED = "text", "extracted"
#: The names of all fields.
FIELDS = (TEXT, EXTRACTED, "importance", "scope", "pinned", "lowered", "ends", "next", "confirmed", "vetoes")
#: Largest statement after decompression, in bytes.
MAX_PLAIN_BYTES = 1_000_000

#: A stamped value in its written form: clock, device, value.
Register = tuple[int, int, Any]
_MEMORY_ID = lazy_regex("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Statement:
    """The state of one memory."""

    #: The parts that never change: kind, voice, source, times, project, evidence.
    birth: Mapping[str, Any]
    #: Field → stamped value. A field that is missing was never decided.
    fields: Mapping[str, Register] = field(default_factory=dict)

    @property
    def hlc(self) -> int:
        """The newest clock value in the statement; 0 if it has no fields."""
        return max((register[0] for register in self.fields.values()), default=0)

    @property
    def unknown_fields(self) -> frozenset[str]:
        """Fields that a newer version of Engram wrote and this one doesn't support."""
        return frozenset(self.fields) - frozenset(FIELDS)


class NewerFormat(BadRequest):
    """A newer version of Engram wrote this. Update Engram."""


def stamp_of(register: Register) -> Stamp:
    return Stamp(register[0], register[1])


def join(mine: Mapping[str, Register], theirs: Mapping[str, Register]) -> dict[str, Register]:
    """Return the fields of ``theirs`` that win over those of ``mine``.

    Joining is commutative, associative and idempotent. An extractor's text never replaces one written by hand.
    """
    newer = {
        name: register
        for name, register in theirs.items()
        if name in FIELDS and (name not in mine or stamp_of(register) > stamp_of(mine[name]))
    }
    if TEXT in mine or TEXT in newer:
        newer.pop(EXTRACTED, None)
    return newer


def encode(statement: Statement) -> bytes:
    value = {"v": FORMAT, "b": dict(statement.birth), "f": {name: list(r) for name, r in statement.fields.items()}}
    return zlib.compress(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode(), 6)


def decode(data: bytes) -> Statement:
    """Decode a statement.

    Raises:
        NewerFormat: a newer program wrote it.
        BadRequest: it is malformed, or too large.
    """
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(data, MAX_PLAIN_BYTES)
        if not unpacker.eof:
            raise BadRequest(f"a statement has more than {MAX_PLAIN_BYTES} bytes")
        value = json.loads(plain.decode("utf-8"), parse_constant=_refuse_constant)
        # A lone surrogate such as \ud800 is not a character and could not be stored.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
        if int(value["v"]) > FORMAT:
            raise NewerFormat()
        fields = {str(name): _register(register) for name, register in value["f"].items()}
        birth = value["b"]
        _check(birth, _BIRTH_TYPES, {})
        _check({name: register[2] for name, register in fields.items()}, _VALUE_TYPES, {"ends": 0, "next": ""})
        return Statement(birth, fields)
    except BadRequest:
        raise
    except (zlib.error, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise BadRequest(f"a statement is malformed: {type(error).__name__}") from error


#: Types of the parts that never change, and of the fields. A row with other types is set aside without holding up the
#: others.
_NUMBER = (int, float)
_BIRTH_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("id", "k", "v", "s", "x", "su", "sl", "pf"), str),
    **dict.fromkeys(("c", "t", "vf"), int),
    **dict.fromkeys(("cf", "q"), _NUMBER),
    "e": list,
    "p": list,
}
_VALUE_TYPES: Mapping[str, Any] = {"importance": str, "scope": str, "ends": int, "next": str, "vetoes": list}


def _check(values: Mapping[str, Any], types: Mapping[str, Any], nothing: Mapping[str, Any]) -> None:
    """Raise BadRequest if a value has the wrong type; those named in ``nothing`` may be null."""
    for name, wanted in types.items():
        value = values.get(name)
        if value is None and (name not in values or name in nothing):
            continue
        if not isinstance(value, wanted) or (wanted is list and not all(isinstance(item, str) for item in value)):
            raise BadRequest(f"a statement has a value of the wrong type in {name!r}")
        if isinstance(value, (int, float)) and not -(1 << 63) <= value < 1 << 63:
            raise BadRequest(f"a statement has a number out of range in {name!r}")
    if "p" in types and values.get("p") and len(values["p"]) != 3:
        raise BadRequest("a statement specifies its project in an unknown form")
    if values.get("next") and not _MEMORY_ID.fullmatch(str(values["next"])):
        raise BadRequest("a statement specifies its successor in an unknown form")


def _refuse_constant(name: str) -> Any:
    raise BadRequest(f"a statement contains the number {name}")


def _register(value: Any) -> Register:
    hlc, device, content = value
    if not (isinstance(hlc, int) and isinstance(device, int)) or not (0 <= hlc < 1 << 63 and 0 <= device < 1 << 63):
        raise BadRequest("a statement has an invalid stamp")
    return hlc, device, content
