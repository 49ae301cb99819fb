"""How a vector lies in memory.db: a byte a number and one scale, half of what float16 takes, cosine 0.9999 to it.

A packed vector has an odd number of bytes: the length of its head (3 or 4), the scale as float16, perhaps a filler,
then one signed byte a number. An even number of bytes is float16 as it came, which is what older rows hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engram.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Largest number of a signed byte that is used.
_MOST = 127


def pack_vector(data: bytes) -> bytes:
    """The stored form of float16 bytes; numbers that no byte can stand for (zeros alone, not finite) stay float16."""
    # Not at the top: the watcher imports the module that needs this, and is to stay small.
    import numpy as np

    row = np.frombuffer(data, dtype=np.float16).astype(np.float32)
    largest = float(np.abs(row).max()) if len(row) and bool(np.isfinite(row).all()) else 0.0
    scale = np.float16(largest / _MOST)
    if not 0 < float(scale) < 100:
        return data
    numbers = np.clip(np.rint(row / np.float32(scale)), -_MOST, _MOST).astype(np.int8)
    filler = b"" if len(numbers) % 2 == 0 else b"\0"
    return b"".join((bytes([3 + len(filler)]), scale.tobytes(), filler, numbers.tobytes()))


def unpack_vectors(stored: Sequence[bytes]) -> list[bytes]:
    """The float16 bytes of stored vectors, in order."""
    found = [bytes(one) for one in stored]
    alike: dict[tuple[int, int], list[int]] = {}
    for index, one in enumerate(found):
        if len(one) % 2:
            alike.setdefault((len(one), one[0]), []).append(index)
    for (size, head), indexes in alike.items():
        rows = _unpack(b"".join(found[index] for index in indexes), size, head)
        for index, row in zip(indexes, rows, strict=True):
            found[index] = row.tobytes()
    return found


def unpack_rows(stored: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """Stored vectors as the rows of a matrix: for many, a third of the time that their float16 bytes take.

    Raises:
        EmbeddingError: one has not ``dimension`` numbers.
    """
    import numpy as np

    size = len(stored[0]) if stored else 0
    if size % 2 and all(len(one) == size and one[0] == stored[0][0] for one in stored):
        rows = _numbers(b"".join(stored), size, stored[0][0])
    else:
        found = unpack_vectors(stored)
        if any(len(one) != 2 * dimension for one in found):
            raise EmbeddingError(f"a stored vector has not {dimension} numbers")
        rows = np.frombuffer(b"".join(found), dtype=np.float16).reshape(-1, dimension).astype(np.float32)
    if rows.shape[1] != dimension:
        raise EmbeddingError(f"a stored vector has {rows.shape[1]} numbers, not {dimension}")
    return rows


def _unpack(data: bytes, size: int, head: int) -> NDArray[np.float16]:
    import numpy as np

    return _numbers(data, size, head).astype(np.float16)


def _numbers(data: bytes, size: int, head: int) -> NDArray[np.float32]:
    """The rows of packed vectors of one length and head."""
    import numpy as np

    table = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
    scales = np.ascontiguousarray(table[:, 1:3]).view(np.float16).astype(np.float32)
    rows = table[:, head:].view(np.int8).astype(np.float32)
    rows *= scales
    return rows
