"""Is the write-ahead log that a crash left whole? SQLite drops everything behind a damaged frame and says nothing.

The format: https://sqlite.org/fileformat2.html#the_write_ahead_log. Frames of this log carry its salts; a crash leaves
a valid beginning. A commit behind a frame whose checksum is wrong was written once, and is lost.
"""

from __future__ import annotations

import struct
from pathlib import Path

from engram.atomic import read_regular

_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
#: A log beyond this is not looked through, in bytes.
MAX_LOG_BYTES = 64_000_000


def find_log_damage(path: Path) -> str:
    """What is lost in the log of the database at ``path``, which nobody has open; "" where all is well."""
    data = read_regular(path.with_name(f"{path.name}-wal"), MAX_LOG_BYTES) or b""
    if len(data) < _HEADER_BYTES + _FRAME_HEADER_BYTES:
        return ""
    magic, _, page_bytes = struct.unpack_from(">3I", data)
    order = _MAGIC.get(magic)
    sums = (0, 0) if order is None else _checksum(order, data[: _HEADER_BYTES - 8], (0, 0))
    if order is None or sums != struct.unpack_from(">2I", data, _HEADER_BYTES - 8):
        return "the beginning of the write-ahead log is damaged: what was written last before the crash is lost"
    lost = _count_lost_commits(data, order, page_bytes, sums)
    return f"the write-ahead log is damaged: the last {lost} writes before the crash are lost" if lost else ""


def _count_lost_commits(data: bytes, order: str, page_bytes: int, sums: tuple[int, int]) -> int:
    """Commits that stand behind the first frame that is not valid, wherever damage moved them.

    A kill leaves at most one frame half written, the last one: that alone is no damage.
    """
    salts = data[16:24]
    start = _HEADER_BYTES
    while start + _FRAME_HEADER_BYTES + page_bytes <= len(data):
        page = data[start + _FRAME_HEADER_BYTES : start + _FRAME_HEADER_BYTES + page_bytes]
        sums = _checksum(order, page, _checksum(order, data[start : start + 8], sums))
        if data[start + 8 : start + 16] != salts or sums != struct.unpack_from(">2I", data, start + 16):
            break
        start += _FRAME_HEADER_BYTES + page_bytes
    frames, commits, place = 0, 0, data.find(salts, start)
    while place >= 0:
        frames += 1
        commits += any(data[place - 4 : place])
        place = data.find(salts, place + len(salts))
    return commits if frames > 1 or start + 8 < data.find(salts, start) else 0


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
