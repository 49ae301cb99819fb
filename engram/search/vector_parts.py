"""A part of the numbers of many rows in few bits: a byte each, or four bits each, with a scale a row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Codes: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]
Places: TypeAlias = NDArray[np.intp]

#: Rows worked on at a time, so that what is worked on stays in the processor's cache.
SLICE_ROWS = 1_024
#: Largest number in 8 bits.
_LARGEST = 127.0
#: Keeps a row of zeros from being divided by zero.
_SMALLEST_SCALE = np.float32(1e-30)
#: Distance of sixteen even levels that loses the least of a normal distribution, as a share of its spread
#: (J. Max, Quantizing for Minimum Distortion, IRE Transactions on Information Theory 6, 1960, table II).
_STEP = 0.3352
#: Half of the sixteen levels lie below zero.
_MIDDLE = 7.5


class Part(ABC):
    """The codes and scales of up to so many rows."""

    def __init__(self, codes: Codes, scales: NDArray[np.floating]) -> None:
        """``codes`` and ``scales``: room for all rows."""
        self._codes = codes
        self._scales = scales

    @abstractmethod
    def store(self, start: int, rows: Floats) -> None:
        """Keep ``rows`` from place ``start`` on."""

    @abstractmethod
    def _dots(self, codes: Codes, query: Floats) -> Floats:
        """Dot products of ``query`` with at most ``SLICE_ROWS`` rows, without their scales."""

    @abstractmethod
    def at(self, places: Places) -> Floats:
        """The rows at ``places``, about as they came."""

    def dots(self, count: int, query: Floats) -> Floats:
        """Dot products of ``query`` with the first ``count`` rows."""
        answer: Floats = np.empty(count, dtype=np.float32)
        for start in range(0, count, SLICE_ROWS):
            stop = min(count, start + SLICE_ROWS)
            answer[start:stop] = self._dots(self._codes[start:stop], query)
        answer *= self._scales[:count]
        return answer

    def dots_at(self, places: Places, query: Floats) -> Floats:
        """The same for the rows at ``places``."""
        answer: Floats = np.empty(len(places), dtype=np.float32)
        for start in range(0, len(places), SLICE_ROWS):
            some = places[start : start + SLICE_ROWS]
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


class Nibbles(Part):
    """Four bits a number: the first half of a row's numbers in the low bits, the second half in the high ones."""

    def __init__(self, rows: int, width: int) -> None:
        """Room for ``rows`` rows of ``width`` numbers."""
        self._width = width
        self._half = (width + 1) // 2
        super().__init__(np.empty((rows, self._half), dtype=np.uint8), np.empty(rows, dtype=np.float16))

    def store(self, start: int, rows: Floats) -> None:
        """See ``Part.store``; the scale is such that a row's product with itself stays as it was."""
        place = slice(start, start + len(rows))
        squares = np.einsum("ij,ij->i", rows, rows)
        steps = np.maximum(_STEP * np.sqrt(squares / max(1, self._width)), _SMALLEST_SCALE)
        levels = np.clip(np.rint(rows / steps[:, np.newaxis] + _MIDDLE), 0, 15)
        codes = levels.astype(np.uint8)
        low, high = codes[:, : self._half], codes[:, self._half :]
        self._codes[place] = low
        self._codes[place, : high.shape[1]] |= high << 4
        kept = np.einsum("ij,ij->i", rows, levels - np.float32(_MIDDLE))
        self._scales[place] = np.where(kept > 0, squares / np.maximum(kept, _SMALLEST_SCALE), 0)

    def _dots(self, codes: Codes, query: Floats) -> Floats:
        low, high = query[: self._half], query[self._half :]
        answer: Floats = (codes & 15).astype(np.float32) @ low
        answer += (codes[:, : len(high)] >> 4).astype(np.float32) @ high
        answer -= np.float32(_MIDDLE * query.sum())
        return answer

    def at(self, places: Places) -> Floats:
        """See ``Part.at``."""
        codes = self._codes[places]
        rows = np.concatenate([codes & 15, codes[:, : self._width - self._half] >> 4], axis=1).astype(np.float32)
        rows -= np.float32(_MIDDLE)
        rows *= self._scales[places, np.newaxis]
        return rows
