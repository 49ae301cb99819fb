"""A turn's entries as they are stored in its row: their uuids and places.

The packed form is a raw deflate stream of four numbers an entry (bytes between the end of the entry before and its
beginning, its length, lines from the entry before, length of its stored uuid), each 8 bytes little-endian, column by
column; then the stored uuids one after the other. The entries stand in the order of the file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

from engram.errors import BrokenDatabase
from engram.models.uuids import REMEMBERED, pack_uuid, unpack_uuid
from engram.transcripts.record import EntryRef


def in_order(entries: Iterable[EntryRef]) -> list[EntryRef]:
    """The entries as they stand in the file."""
    return sorted(entries, key=lambda entry: (entry.offset, entry.line))


def pack_entries(entries: Sequence[EntryRef]) -> bytes:
    """The stored form of a turn's entries, which must be ``in_order``."""
    gaps, lengths, steps, sizes, uuids = [], [], [], [], []
    end = line = 0
    for entry in entries:
        uuid = pack_uuid(entry.uuid)
        gaps.append(entry.offset - end)
        lengths.append(entry.length)
        steps.append(entry.line - line)
        sizes.append(len(uuid))
        uuids.append(uuid)
        end, line = entry.offset + entry.length, entry.line
    numbers = gaps + lengths + steps + sizes
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join((packer.compress(struct.pack(f"<{len(numbers)}q", *numbers)), packer.flush(), *uuids))


def unpack_entries(data: bytes) -> tuple[EntryRef, ...]:
    """A turn's entries, in the order of the file. Raises BrokenDatabase for damaged ones."""
    if not data:
        return ()
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = unpacker.decompress(data)
        count = len(plain) // 32
        numbers = struct.unpack(f"<{count * 4}q", plain)
    except (zlib.error, struct.error) as error:
        raise BrokenDatabase(f"the entries of a turn are damaged: {error}") from error
    uuids = unpacker.unused_data
    found, end, line, start = [], 0, 0, 0
    for index in range(count):
        gap, length, step, size = numbers[index::count]
        offset, line = end + gap, line + step
        found.append(EntryRef(unpack_uuid(uuids[start : start + size]), offset, length, line))
        end, start = offset + length, start + size
    return tuple(found)


@lru_cache(maxsize=REMEMBERED)
def entry_key(uuid: str) -> int:
    """What an entry is found by: 64 bits of BLAKE2b over its uuid. Among ten million, two are alike once in 400,000."""
    return int.from_bytes(blake2b(pack_uuid(uuid), digest_size=8).digest(), "little", signed=True)
