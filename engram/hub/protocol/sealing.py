"""Sealing: bodies that only machines with the key of a space can read, bound to their place.

A body begins with one byte, its kind. An open one is the compressed statement. A sealed one is padded, encrypted with
ChaCha20-Poly1305 and authenticated together with the space, author, memory, device, clock and version of its row, so
that a hub can neither read it nor pass it off as another. A sealed space's tombstones are sealed too: a hub can't make
a machine forget.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from engram.errors import BadRequest
from engram.hub.protocol.frames import Row

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

#: Bytes of a key, and of its id.
KEY_BYTES, KEY_ID_BYTES = 32, 8
#: Sealed bodies are padded to a multiple of this, in bytes.
PADDING_BYTES = 128
_OPEN, _SEALED = 1, 2
_NONCE_BYTES = 12
_BOUND = struct.Struct(">QQ8sQQI?")
_SIZE = struct.Struct(">I")


class WrongKey(BadRequest):
    """This machine has no key for that. Run `engram hub key` with the recovery phrase."""


def new_key() -> bytes:
    """Return a new key of a space."""
    return secrets.token_bytes(KEY_BYTES)


def key_id_of(key: bytes) -> bytes:
    """Return the id of a key; it tells nothing of the key."""
    return hashlib.blake2b(key, digest_size=KEY_ID_BYTES, person=b"engram key id").digest()


def open_body(plain: bytes) -> bytes:
    """Return the body of a row in an open space."""
    return bytes([_OPEN]) + plain


def seal_body(key: bytes, ns_id: int, row: Row, plain: bytes) -> bytes:
    """Return the sealed body of a row; the row's own body is not looked at."""
    padded = _SIZE.pack(len(plain)) + plain
    padded += bytes(-len(padded) % PADDING_BYTES)
    nonce = os.urandom(_NONCE_BYTES)
    return bytes([_SEALED]) + key_id_of(key) + nonce + _cipher(key).encrypt(nonce, padded, _bound(ns_id, row))


def read_body(keys: Mapping[bytes, bytes], ns_id: int, row: Row, *, is_sealed: bool) -> bytes:
    """Return what the body of a row says.

    Args:
        keys: id of a key → key.
        ns_id: the space.
        row: the row with its body.
        is_sealed: the space is sealed: an open body is refused.

    Raises:
        WrongKey: it was sealed with a key that is not here.
        BadRequest: it was changed, moved, or is of another kind.
    """
    body = row.body
    if not is_sealed and body[:1] == bytes([_OPEN]):
        return body[1:]
    if not is_sealed or body[:1] != bytes([_SEALED]):
        raise BadRequest("the body of a statement is not sealed as its space is")
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


def wrap_keys(secret: str, keys: bytes) -> bytes:
    """Return keys, sealed with the half of a one-time code that the hub never gets."""
    salt, nonce = os.urandom(16), os.urandom(_NONCE_BYTES)
    return salt + nonce + _cipher(_stretched(secret, salt)).encrypt(nonce, keys, b"engram join")


def unwrap_keys(secret: str, wrapped: bytes) -> bytes:
    """Return the keys of a one-time code. Raises WrongKey where its second half is wrong."""
    from cryptography.exceptions import InvalidTag

    salt, nonce, sealed = wrapped[:16], wrapped[16 : 16 + _NONCE_BYTES], wrapped[16 + _NONCE_BYTES :]
    try:
        return _cipher(_stretched(secret, salt)).decrypt(nonce, sealed, b"engram join")
    except (InvalidTag, ValueError) as error:
        raise WrongKey("the code is mistyped: its second half opens nothing; nothing was changed") from error


def _stretched(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, n=1 << 14, r=8, p=1, dklen=KEY_BYTES)


def _bound(ns_id: int, row: Row) -> bytes:
    return _BOUND.pack(ns_id, row.author, row.memory_id, row.device, row.hlc, row.version, row.is_forgotten)


def _cipher(key: bytes) -> ChaCha20Poly1305:
    # Not above: only a machine that joined a hub needs it.
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key)
