"""Entry uuids as 16 bytes where they are uuids, else as their text: saves a fifth of memory.db."""

from __future__ import annotations

import re
import uuid as uuid_module
from functools import lru_cache

_UUID_BYTES = 16
#: Uuids of entries whose stored form, or key, is remembered: each is needed twice while a portion is read.
REMEMBERED = 2048
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@lru_cache(maxsize=REMEMBERED)
def pack_uuid(text: str) -> bytes:
    """The stored form of an entry's uuid; 16 bytes mean a uuid, any other length means text."""
    if len(text) == 36 and _UUID.fullmatch(text):
        return bytes.fromhex(text.replace("-", ""))
    data = text.encode("utf-8", "replace")
    return data + b"\0" if len(data) == _UUID_BYTES else data


def unpack_uuid(data: bytes | None) -> str:
    """The text of a stored uuid; "" for none."""
    if not data:
        return ""
    data = bytes(data)
    if len(data) == _UUID_BYTES:
        return str(uuid_module.UUID(bytes=data))
    return data.rstrip(b"\0").decode("utf-8", "replace")
