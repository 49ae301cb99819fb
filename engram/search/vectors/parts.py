"""A part of the numbers of many rows in few bits: a byte each, or two or four bits each, with a scale a row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Codes: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]
Places: TypeAlias = NDArray[np.intp]

#: Numbers worked on at a time (512 KB): they stay in the processor's cache, and more would be asked of the system anew for
#: each slice, which takes as long as the work itself.
_SLICE_NUMBERS = 131_072
#: Largest number in 8 bits.
_LARGEST = 127.0
#: Keeps a row of zeros from being divided by zero.
_SMALLEST_SCALE = np.float32(1e-30)
#: Bits of a number → distance of so many even levels that loses the least of a normal distribution, as a share of its
#: spread (J. Max, Quantizing for Minimum Distortion, IRE Transactions on Information Theory 6, 1960, table II). In two
#: bits uneven levels would lose 1.1 % less, and cost a look at a table for each number.
_STEPS = {2: 0.9957, 4: 0.3352}


class Part(ABC):
    """The codes and scales of up to so many rows."""

    def __init__(self, codes: Codes, scales: NDArray[np.floating]) -> None:
        """``codes`` and ``scales``: room for all rows."""
        self._codes = codes
        self._scales = scales
        #: Rows worked on at a time.
        self._slice = _SLICE_NUMBERS // max(1, codes.shape[1])

    @abstractmethod
    def store(self, start: int, rows: Floats) -> None:
        """Keep ``rows`` from place ``start`` on."""

    @abstractmethod
    def _dots(self, codes: Codes, query: Floats) -> Floats:
        """Dot products of ``query`` with a slice of rows, without their scales."""

    @abstractmethod
    def at(self, places: Places) -> Floats:
        """The rows at ``places``, about as they came."""

    def dots(self, count: int, query: Floats) -> Floats:
        """Dot products of ``query`` with the first ``count`` rows."""
        answer: Floats = np.empty(count, dtype=np.float32)
        for start in range(0, count, self._slice):
            stop = min(count, start + self._slice)
            answer[start:stop] = self._dots(self._codes[start:stop], query)
        answer *= self._scales[:count]
        return answer

    def dots_at(self, places: Places, query: Floats) -> Floats:
        """The same for the rows at ``places``."""
        answer: Floats = np.empty(len(places), dtype=np.float32)
        for start in range(0, len(places), self._slice):
            some = places[start : start + self._slice]
            answer[start : start + len(some)] = self._dots(self._codes[some], query)
        answer *= self._scales[places]
        return answer

    def columns(self) -> tuple[NDArray[np.generic], ...]:
        """What there is of each row."""
        return self._codes, self._scales


class Bytes(Part):
    """A byte a number."""

    def __init__(self, rows: int, width: int) -> None:
        """Room for ``rows`` rows of ``width`` numbers."""
        super().__init__(np.empty((rows, width), dtype=np.int8), np.empty(rows, dtype=np.float32))

    def store(self, start: int, rows: Floats) -> None:
        """See ``Part.store``."""
        place = slice(start, start + len(rows))
        scales = np.maximum(np.abs(rows).max(axis=1, initial=0) / _LARGEST, _SMALLEST_SCALE)
        self._codes[place] = np.rint(rows / scales[:, np.newaxis])
        self._scales[place] = scales

    def _dots(self, codes: Codes, query: Floats) -> Floats:
        # Converting a slice to float32 and multiplying that is faster than any product of whole numbers in numpy.
        answer: Floats = codes.astype(np.float32) @ query
        return answer

    def at(self, places: Places) -> Floats:
        """See ``Part.at``."""
        rows = self._codes[places].astype(np.float32)
        rows *= self._scales[places, np.newaxis]
        return rows


class Packed(Part):
    """Two or four bits a number, for rows about normally distributed.

    A byte holds numbers of different shares of the row: one of the first share in its lowest bits, and so on.
    """

    def __init__(self, rows: int, width: int, bits: int) -> None:
        """Room for ``rows`` rows of ``width`` numbers in ``bits`` bits each."""
        self._width = width
        self._bits = bits
        self._largest = 2**bits - 1
        self._middle = np.float32(self._largest / 2)
        row_bytes = -(-width * bits // 8)
        super().__init__(np.empty((rows, row_bytes), dtype=np.uint8), np.empty(rows, dtype=np.float16))

    def store(self, start: int, rows: Floats) -> None:
        """See ``Part.store``; the scale is such that a row's product with itself stays as it was."""
        place = slice(start, start + len(rows))
        squares = np.einsum("ij,ij->i", rows, rows)
        steps = np.maximum(_STEPS[self._bits] * np.sqrt(squares / max(1, self._width)), _SMALLEST_SCALE)
        levels = np.clip(np.rint(rows / steps[:, np.newaxis] + self._middle), 0, self._largest)
        self._codes[place] = 0
        for shift, share in self._shares():
            codes = levels[:, share].astype(np.uint8)
            self._codes[place, : codes.shape[1]] |= codes << shift
        kept = np.einsum("ij,ij->i", rows, levels - self._middle)
        self._scales[place] = np.where(kept > 0, squares / np.maximum(kept, _SMALLEST_SCALE), 0)

    def _shares(self) -> Iterator[tuple[int, slice]]:
        """Where the bits of a share begin, and which numbers of a row it has."""
        size = self._codes.shape[1]
        for number in range(8 // self._bits):
            start = min(size * number, self._width)
            yield self._bits * number, slice(start, min(start + size, self._width))

    def _dots(self, codes: Codes, query: Floats) -> Floats:
        answer: Floats = np.full(len(codes), -self._middle * query.sum(), dtype=np.float32)
        for shift, share in self._shares():
            # The bits stay where they are, which spares moving them; the query's part is smaller instead.
            part = query[share] / np.float32(2**shift)
            answer += (codes[:, : len(part)] & (self._largest << shift)).astype(np.float32) @ part
        return answer

    def at(self, places: Places) -> Floats:
        """See ``Part.at``."""
        rows: Floats = np.empty((len(places), self._width), dtype=np.float32)
        codes = self._codes[places]
        for shift, share in self._shares():
            rows[:, share] = codes[:, : share.stop - share.start] >> shift & self._largest
        rows -= self._middle
        rows *= self._scales[places, np.newaxis]
        return rows
