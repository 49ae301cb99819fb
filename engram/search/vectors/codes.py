"""Quantised vectors: 8, 4 or 2 bits for each number, and one scale for each row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
CodeArray: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]
Places: TypeAlias = NDArray[np.intp]

#: Numbers processed at a time (512 KB). They fit the processor's cache; a larger buffer would be allocated anew for
#: each slice, which takes as long as the work itself.
_SLICE_NUMBERS = 131_072
#: Largest code of 8 bits.
_MAX_INT8 = 127.0
#: Prevents a division by zero for a row of zeros.
_MIN_SCALE = np.float32(1e-30)
#: Bits → the step between even levels that loses least of a normal distribution, as a share of its standard deviation
#: (J. Max, Quantizing for Minimum Distortion, IRE Transactions on Information Theory 6, 1960, table II). Uneven levels
#: would lose 1.1 % less in two bits, but cost a table look-up for each number.
_STEPS = {2: 0.9957, 4: 0.3352}


class Codes(ABC):
    """The codes and scales of a fixed number of rows."""

    def __init__(self, codes: CodeArray, scales: NDArray[np.floating]) -> None:
        """Take the arrays that hold the codes and scales of all rows."""
        self._codes = codes
        self._scales = scales
        self._slice_rows = _SLICE_NUMBERS // max(1, codes.shape[1])

    @abstractmethod
    def store(self, start: int, rows: Floats) -> None:
        """Store ``rows`` from place ``start`` on."""

    @abstractmethod
    def _dots(self, codes: CodeArray, query: Floats) -> Floats:
        """Return the dot products of ``query`` with a slice of rows, without their scales."""

    @abstractmethod
    def rows_at(self, places: Places) -> Floats:
        """Return the rows at ``places``, approximately as they were stored."""

    def dots(self, count: int, query: Floats) -> Floats:
        """Return the dot products of ``query`` with the first ``count`` rows."""
        products: Floats = np.empty(count, dtype=np.float32)
        for start in range(0, count, self._slice_rows):
            stop = min(count, start + self._slice_rows)
            products[start:stop] = self._dots(self._codes[start:stop], query)
        products *= self._scales[:count]
        return products

    def dots_at(self, places: Places, query: Floats) -> Floats:
        """Return the dot products of ``query`` with the rows at ``places``."""
        products: Floats = np.empty(len(places), dtype=np.float32)
        for start in range(0, len(places), self._slice_rows):
            slice_places = places[start : start + self._slice_rows]
            products[start : start + len(slice_places)] = self._dots(self._codes[slice_places], query)
        products *= self._scales[places]
        return products

    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """Return the arrays that have an entry for each row."""
        return self._codes, self._scales


class ByteCodes(Codes):
    """8 bits for each number."""

    def __init__(self, rows: int, width: int) -> None:
        """Allocate ``rows`` rows of ``width`` numbers."""
        super().__init__(np.empty((rows, width), dtype=np.int8), np.empty(rows, dtype=np.float32))

    def store(self, start: int, rows: Floats) -> None:
        """Store ``rows``."""
        place = slice(start, start + len(rows))
        scales = np.maximum(np.abs(rows).max(axis=1, initial=0) / _MAX_INT8, _MIN_SCALE)
        self._codes[place] = np.rint(rows / scales[:, np.newaxis])
        self._scales[place] = scales

    def _dots(self, codes: CodeArray, query: Floats) -> Floats:
        # Converting a slice to float32 and multiplying that is faster than any product of whole numbers in numpy.
        products: Floats = codes.astype(np.float32) @ query
        return products

    def rows_at(self, places: Places) -> Floats:
        """Return the rows at ``places``."""
        rows = self._codes[places].astype(np.float32)
        rows *= self._scales[places, np.newaxis]
        return rows


class PackedCodes(Codes):
    """2 or 4 bits for each number, for rows that are about normally distributed.

    A row is cut into as many shares as a byte holds codes: the lowest bits hold a number of the first share, and so on.
    """

    def __init__(self, rows: int, width: int, bits: int) -> None:
        """Allocate ``rows`` rows of ``width`` numbers in ``bits`` bits each."""
        self._width = width
        self._bits = bits
        self._max_code = 2**bits - 1
        self._middle = np.float32(self._max_code / 2)
        row_bytes = -(-width * bits // 8)
        super().__init__(np.empty((rows, row_bytes), dtype=np.uint8), np.empty(rows, dtype=np.float16))

    def store(self, start: int, rows: Floats) -> None:
        """Store ``rows``; the scale keeps the dot product of a row with itself."""
        place = slice(start, start + len(rows))
        squares = np.einsum("ij,ij->i", rows, rows)
        steps = np.maximum(_STEPS[self._bits] * np.sqrt(squares / max(1, self._width)), _MIN_SCALE)
        levels = np.clip(np.rint(rows / steps[:, np.newaxis] + self._middle), 0, self._max_code)
        self._codes[place] = 0
        for shift, share in self._shares():
            codes = levels[:, share].astype(np.uint8)
            self._codes[place, : codes.shape[1]] |= codes << shift
        kept = np.einsum("ij,ij->i", rows, levels - self._middle)
        self._scales[place] = np.where(kept > 0, squares / np.maximum(kept, _MIN_SCALE), 0)

    def _shares(self) -> Iterator[tuple[int, slice]]:
        """Return the first bit of each share, and which numbers of a row it has."""
        size = self._codes.shape[1]
        for number in range(8 // self._bits):
            start = min(size * number, self._width)
            yield self._bits * number, slice(start, min(start + size, self._width))

    def _dots(self, codes: CodeArray, query: Floats) -> Floats:
        products: Floats = np.full(len(codes), -self._middle * query.sum(), dtype=np.float32)
        for shift, share in self._shares():
            # The bits are not shifted; the query is scaled down instead.
            scaled = query[share] / np.float32(2**shift)
            products += (codes[:, : len(scaled)] & (self._max_code << shift)).astype(np.float32) @ scaled
        return products

    def rows_at(self, places: Places) -> Floats:
        """Return the rows at ``places``."""
        rows: Floats = np.empty((len(places), self._width), dtype=np.float32)
        codes = self._codes[places]
        for shift, share in self._shares():
            rows[:, share] = codes[:, : share.stop - share.start] >> shift & self._max_code
        rows -= self._middle
        rows *= self._scales[places, np.newaxis]
        return rows
