"""The header of a safetensors file: which tensors it holds, and where."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

from engram.errors import EmbeddingError

#: Length of the number before the header, in bytes.
_PREFIX_BYTES = 8
#: The longest header that is read, in bytes.
_MAX_HEADER_BYTES = 10_000_000
#: Bytes of one number, by safetensors' name of the type.
_NUMBER_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in a safetensors file."""

    #: F32, F16 and others: safetensors' name of the type.
    dtype: str
    shape: tuple[int, ...]
    #: Where its numbers start, counted from the start of the file, in bytes.
    offset: int
    #: How much room they take, in bytes.
    length: int


def read_header(path: Path) -> dict[str, Tensor]:
    """Return the tensors in ``path`` by name; reads the header only.

    Raises:
        EmbeddingError: the file is missing, cut short, or no safetensors file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (header_bytes,) = struct.unpack("<Q", file.read(_PREFIX_BYTES))
            if header_bytes > min(_MAX_HEADER_BYTES, size):
                raise ValueError("the header is longer than the file")
            fields = json.loads(file.read(header_bytes))
        fields.pop("__metadata__", None)
        start = _PREFIX_BYTES + header_bytes
        return {name: _tensor(field, start, size) for name, field in fields.items()}
    except OSError as error:
        raise EmbeddingError(f"can't read the weights {path}: {error.strerror}") from error
    except (struct.error, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EmbeddingError(f"the weights {path} are damaged: {error}") from error


def _tensor(field: dict[str, object], start: int, file_bytes: int) -> Tensor:
    shape = tuple(map(int, field["shape"]))  # type: ignore[call-overload]
    begin, end = map(int, field["data_offsets"])  # type: ignore[call-overload]
    dtype = str(field["dtype"])
    if not 0 <= begin <= end <= file_bytes - start or min(shape, default=0) < 0:
        raise ValueError("a tensor lies outside of the file")
    if dtype in _NUMBER_BYTES and end - begin != math.prod(shape) * _NUMBER_BYTES[dtype]:
        raise ValueError("a tensor's length doesn't fit its shape")
    return Tensor(dtype, shape, start + begin, end - begin)
