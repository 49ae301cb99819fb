"""Encode pages of rows as frames of bytes, for pull, push and the files of a folder. Integers are big-endian."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engram.errors import BadRequest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305


#: Version of the frames and messages, part of every URL of the service.
PROTOCOL = 1
#: Maximum number of rows in a page.
MAX_ROWS = 2_000
#: Maximum size of a page, in bytes.
MAX_PAGE_BYTES = 8_000_000

_ROW = struct.Struct(">QQ8sQQIBI")
_PULLED = struct.Struct(">4sBQ16sQI")
_PUSHED = struct.Struct(">4sBQ16s16sI")
_ANSWERS = struct.Struct(">4sBQ16sI")
_MAGIC_PULL, _MAGIC_PUSH, _MAGIC_ANSWERS = b"ENPL", b"ENPS", b"ENAN"

#: The id of the previous push if there has been none.
NO_PUSH = bytes(16)

#: Answers to a row: it was stored, the hub already has it, the memory was forgotten, or the row is refused.
TAKEN, KNOWN, FORGOTTEN, TOO_LARGE, BAD_CLOCK, NO_ROOM, NOT_YOURS = range(7)
#: Why a row was refused, by answer.
REFUSALS = {
    TOO_LARGE: "it is larger than the hub accepts",
    BAD_CLOCK: "its time is too far ahead of the hub's",
    NO_ROOM: "the space is full",
    NOT_YOURS: "it belongs to another member",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A statement in transit, made by one device about one author's memory."""

    author: int
    #: Eight bytes.
    memory_id: bytes
    device: int
    hlc: int
    #: Counts the changes of this statement by its device.
    version: int
    is_forgotten: bool
    body: bytes
    #: Position in the space's order; 0 for a row that is being pushed.
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    rows: tuple[Row, ...]
    #: All rows up to this position are in this page or in earlier ones.
    upto: int
    #: A mark and its position in the order; it reveals a hub that was restored from a backup.
    mark_seq: int
    mark: bytes


@dataclass(frozen=True, slots=True)
class Push:
    ns_id: int
    #: The ids of this push and of this device's last accepted push (zeros before the first), 16 bytes each. They reveal
    #: that a copy of the machine has pushed in the meantime.
    push_id: bytes
    last_push_id: bytes
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to the pushed rows, in order, and the mark of the push."""

    answers: tuple[int, ...]
    mark_seq: int
    mark: bytes


def pack_page(page: Page) -> bytes:
    head = _PULLED.pack(_MAGIC_PULL, PROTOCOL, page.upto, page.mark, page.mark_seq, len(page.rows))
    return head + _pack_rows(page.rows)


def unpack_page(data: bytes) -> Page:
    """Decode a page. Raises BadRequest if the bytes are malformed."""
    upto, mark, mark_seq, count = _unpack_head(_PULLED, _MAGIC_PULL, data)
    return Page(_unpack_rows(data, _PULLED.size, count), upto, mark_seq, mark)


def pack_push(push: Push) -> bytes:
    head = _PUSHED.pack(_MAGIC_PUSH, PROTOCOL, push.ns_id, push.push_id, push.last_push_id, len(push.rows))
    return head + _pack_rows(push.rows)


def unpack_push(data: bytes) -> Push:
    """Decode a pushed page. Raises BadRequest if the bytes are malformed."""
    ns_id, push_id, last_push_id, count = _unpack_head(_PUSHED, _MAGIC_PUSH, data)
    return Push(ns_id, push_id, last_push_id, _unpack_rows(data, _PUSHED.size, count))


def pack_answers(answers: Answers) -> bytes:
    count = len(answers.answers)
    return _ANSWERS.pack(_MAGIC_ANSWERS, PROTOCOL, answers.mark_seq, answers.mark, count) + bytes(answers.answers)


def unpack_answers(data: bytes) -> Answers:
    """Decode answers. Raises BadRequest if the bytes are malformed."""
    mark_seq, mark, count = _unpack_head(_ANSWERS, _MAGIC_ANSWERS, data)
    answers = data[_ANSWERS.size :]
    if len(answers) != count or max(answers, default=TAKEN) > NOT_YOURS:
        raise BadRequest("the hub's answer is truncated, or contains an unknown answer")
    return Answers(tuple(answers), mark_seq, mark)


def _unpack_head(head: struct.Struct, magic: bytes, data: bytes) -> list[Any]:
    try:
        found, version, *values = head.unpack_from(data)
    except struct.error as error:
        raise BadRequest("a frame is truncated") from error
    if found != magic or version != PROTOCOL:
        raise BadRequest("a frame has a different kind or version")
    return values


def _pack_rows(rows: Sequence[Row]) -> bytes:
    parts = []
    for row in rows:
        head = (row.seq, row.author, row.memory_id, row.device, row.hlc, row.version, row.is_forgotten, len(row.body))
        parts += [_ROW.pack(*head), row.body]
    return b"".join(parts)


def _unpack_rows(data: bytes, start: int, count: object) -> tuple[Row, ...]:
    rows: list[Row] = []
    if not isinstance(count, int) or count > MAX_ROWS:
        raise BadRequest(f"a page has more than {MAX_ROWS} rows")
    for _ in range(count):
        try:
            seq, author, memory_id, device, hlc, version, is_forgotten, size = _ROW.unpack_from(data, start)
        except struct.error as error:
            raise BadRequest("a frame is truncated") from error
        start += _ROW.size
        body = data[start : start + size]
        if len(body) != size:
            raise BadRequest("a frame is truncated")
        if max(author, device, hlc, seq) >= 1 << 63:
            raise BadRequest("a frame has a number that is too large")
        start += size
        rows.append(
            Row(
                author=author,
                memory_id=memory_id,
                device=device,
                hlc=hlc,
                version=version,
                is_forgotten=bool(is_forgotten),
                body=body,
                seq=seq,
            )
        )
    if start != len(data):
        raise BadRequest("a frame has extra bytes after its rows")
    return tuple(rows)


# -- Seal bodies so that only machines with the space's key can read them, and bind each to its row.
#
# A body begins with one byte, its kind. An open one is the compressed statement. A sealed one is padded, encrypted
# with ChaCha20-Poly1305 and authenticated together with the space, author, memory, device, clock and version of its
# row, so that a hub can neither read it nor pass it off as another one. The tombstones of a sealed space are sealed
# too, so that a hub can't make a machine forget a memory.

#: Size of a key, and of its id, in bytes.
KEY_BYTES, KEY_ID_BYTES = 32, 8
#: Sealed bodies are padded to a multiple of this, in bytes.
PADDING_BYTES = 128
_OPEN, _SEALED = 1, 2
_NONCE_BYTES = 12
_BOUND = struct.Struct(">QQ8sQQI?")
_SIZE = struct.Struct(">I")


class WrongKey(BadRequest):
    """This machine lacks the key for this space. Run `engram hub key` with the recovery phrase."""


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def key_id_of(key: bytes) -> bytes:
    """Return the id of a key; it reveals nothing about the key."""
    return hashlib.blake2b(key, digest_size=KEY_ID_BYTES, person=b"engram key id").digest()


def open_body(plain: bytes) -> bytes:
    return bytes([_OPEN]) + plain


def seal_body(key: bytes, ns_id: int, row: Row, plain: bytes) -> bytes:
    """Return the sealed body of a row; the row's own body is ignored."""
    padded = _SIZE.pack(len(plain)) + plain
    padded += bytes(-len(padded) % PADDING_BYTES)
    nonce = os.urandom(_NONCE_BYTES)
    return bytes([_SEALED]) + key_id_of(key) + nonce + _cipher(key).encrypt(nonce, padded, _bound(ns_id, row))


def read_body(keys: Mapping[bytes, bytes], ns_id: int, row: Row, *, is_sealed: bool) -> bytes:
    """Return the content of a row's body.

    Args:
        keys: id of a key → key.
        is_sealed: True if the space is sealed, in which case an unsealed body is refused.

    Raises:
        WrongKey: it was sealed with a key that this machine lacks.
        BadRequest: it was changed or moved, or is of another kind.
    """
    body = row.body
    if not is_sealed and body[:1] == bytes([_OPEN]):
        return body[1:]
    if not is_sealed or body[:1] != bytes([_SEALED]):
        raise BadRequest("a statement is sealed but its space is not, or vice versa")
    key_id, nonce = body[1 : 1 + KEY_ID_BYTES], body[1 + KEY_ID_BYTES : 1 + KEY_ID_BYTES + _NONCE_BYTES]
    if key_id not in keys:
        raise WrongKey()
    from cryptography.exceptions import InvalidTag

    try:
        sealed = body[1 + KEY_ID_BYTES + _NONCE_BYTES :]
        padded = _cipher(keys[key_id]).decrypt(nonce, sealed, _bound(ns_id, row))
        (size,) = _SIZE.unpack_from(padded)
    except (InvalidTag, ValueError, struct.error) as error:
        raise BadRequest("a sealed statement was changed or moved") from error
    return padded[_SIZE.size : _SIZE.size + size]


# -- Segments are the files of a folder that serves as a hub. Each is a page of one device's rows, sealed as a whole
# with the key of the space, so that nothing in it can be read or counted. It is also bound to the space, its device and
# its numbers, so that a file that was moved, truncated or made by someone else cannot be opened.

#: Maximum size of a file, in bytes.
MAX_SEGMENT_BYTES = 16_000_000
#: Segments are padded to a multiple of this, in bytes.
_SEGMENT_PADDING = 512
_SEGMENT_HEAD = struct.Struct(">4sB8s12s")
_SEGMENT_BOUND = struct.Struct(">4sBQQQQ")
_MAGIC_SEGMENT = b"ENSG"


@dataclass(frozen=True, slots=True)
class Segment:
    """The statements of one device in one file."""

    ns_id: int
    device: int
    #: The range of numbers in the file's name: its own, or those of the files that it replaces.
    first: int
    last: int
    #: 16 bytes that let a machine recognise its own files and those of a copy of itself.
    push_id: bytes
    #: When it was written, in milliseconds since 1970.
    at_ms: int
    #: The machine's name.
    name: str
    rows: tuple[Row, ...]


def seal_segment(key: bytes, segment: Segment) -> bytes:
    facts = {"push": segment.push_id.hex(), "at": segment.at_ms, "name": segment.name}
    head = json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode()
    # A page in a file has no position in a space's order, so these fields contain the numbers of the file.
    page = pack_page(Page(segment.rows, upto=segment.last, mark_seq=segment.first, mark=bytes(16)))
    plain = _SIZE.pack(len(head)) + head + _SIZE.pack(len(page)) + page
    plain += bytes(-len(plain) % _SEGMENT_PADDING)
    nonce = os.urandom(_NONCE_BYTES)
    bound = _bound_segment(segment.ns_id, segment.device, (segment.first, segment.last))
    sealed = _cipher(key).encrypt(nonce, plain, bound)
    return _SEGMENT_HEAD.pack(_MAGIC_SEGMENT, PROTOCOL, key_id_of(key), nonce) + sealed


def open_segment(
    keys: Mapping[bytes, bytes], ns_id: int, device: int, numbers: tuple[int, int], data: bytes
) -> Segment:
    """Return the segment in a file.

    Args:
        keys: id of a key → key.
        ns_id: the space to which the file's folder belongs.
        device: the device to which the file's folder belongs.
        numbers: the first and the last number in the file's name.

    Raises:
        WrongKey: it was sealed with a key that this machine lacks.
        BadRequest: it was truncated, changed or moved, or is of another version.
    """
    from cryptography.exceptions import InvalidTag

    try:
        magic, version, key_id, nonce = _SEGMENT_HEAD.unpack_from(data)
        if magic != _MAGIC_SEGMENT or version != PROTOCOL:
            raise BadRequest("it is a different kind of file, or from another version of Engram")
        if key_id not in keys:
            raise WrongKey()
        bound = _bound_segment(ns_id, device, numbers)
        plain = _cipher(keys[key_id]).decrypt(nonce, data[_SEGMENT_HEAD.size :], bound)
        (head_bytes,) = _SIZE.unpack_from(plain)
        facts = json.loads(plain[_SIZE.size : _SIZE.size + head_bytes])
        start = 2 * _SIZE.size + head_bytes
        (page_bytes,) = _SIZE.unpack_from(plain, start - _SIZE.size)
        page = unpack_page(plain[start : start + page_bytes])
        return Segment(
            ns_id=ns_id,
            device=device,
            first=numbers[0],
            last=numbers[1],
            push_id=bytes.fromhex(facts["push"]),
            at_ms=int(facts["at"]),
            name=str(facts["name"]),
            rows=page.rows,
        )
    except (InvalidTag, ValueError, LookupError, TypeError, struct.error) as error:
        raise BadRequest("it was truncated, changed or moved") from error


def _bound_segment(ns_id: int, device: int, numbers: tuple[int, int]) -> bytes:
    return _SEGMENT_BOUND.pack(_MAGIC_SEGMENT, PROTOCOL, ns_id, device, *numbers)


def wrap_keys(secret: str, keys: bytes) -> bytes:
    """Return the keys sealed with the half of a one-time code that the hub never gets."""
    salt, nonce = os.urandom(16), os.urandom(_NONCE_BYTES)
    return salt + nonce + _cipher(_stretched(secret, salt)).encrypt(nonce, keys, b"engram join")


def unwrap_keys(secret: str, wrapped: bytes) -> bytes:
    """Return the keys of a one-time code. Raises WrongKey if its second half is wrong."""
    from cryptography.exceptions import InvalidTag

    salt, nonce, sealed = wrapped[:16], wrapped[16 : 16 + _NONCE_BYTES], wrapped[16 + _NONCE_BYTES :]
    try:
        return _cipher(_stretched(secret, salt)).decrypt(nonce, sealed, b"engram join")
    except (InvalidTag, ValueError) as error:
        raise WrongKey("the code was mistyped: its second half is wrong; nothing was changed") from error


def _stretched(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, n=1 << 14, r=8, p=1, dklen=KEY_BYTES)


def _bound(ns_id: int, row: Row) -> bytes:
    return _BOUND.pack(ns_id, row.author, row.memory_id, row.device, row.hlc, row.version, row.is_forgotten)


def _cipher(key: bytes) -> ChaCha20Poly1305:
    # Imported here because only a machine that has joined a hub needs it.
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key)
