"""Blocks of rows for the vector index: exact as float32, or rotated and quantised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

# -- Quantised vectors: 8, 4 or 2 bits per number, and one scale per row.

Floats: TypeAlias = NDArray[np.float32]
CodeArray: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]
Places: TypeAlias = NDArray[np.intp]

#: Numbers processed at a time (256 KB), to fit the processor's cache. All slices share one buffer: allocating one per
#: slice took three times as long as the work itself, since a worker's allocator returns memory immediately.
_SLICE_NUMBERS = 65_536
#: Largest 8-bit code.
_MAX_INT8 = 127.0
#: Prevents division by zero for a row of zeros.
_MIN_SCALE = np.float32(1e-30)
#: Bits → the step between uniform levels with the least distortion for a normal distribution, as a share of its
#: standard deviation (J. Max, Quantizing for Minimum Distortion, IRE Transactions on Information Theory 6, 1960, table
#: II). Non-uniform levels would lose 1.1 % less with two bits, but need a table lookup for each number.
_STEPS = {2: 0.9957, 4: 0.3352}


class Codes(ABC):
    """The codes and scales of a fixed number of rows."""

    def __init__(self, codes: CodeArray, scales: NDArray[np.floating]) -> None:
        self._codes = codes
        self._scales = scales
        self._slice_rows = _SLICE_NUMBERS // max(1, codes.shape[1])

    @abstractmethod
    def store(self, start: int, rows: Floats) -> None:
        """Store ``rows``, beginning at place ``start``."""

    @abstractmethod
    def _dots(self, codes: CodeArray, query: Floats, room: Floats) -> Floats:
        """Return the unscaled dot products of ``query`` with a slice of rows, using ``room`` as a buffer for it."""

    @abstractmethod
    def rows_at(self, places: Places) -> Floats:
        """Return the rows at ``places``, approximately as they were passed to ``store``."""

    def dots(self, count: int, query: Floats) -> Floats:
        """Return the dot products of ``query`` with the first ``count`` rows."""
        products: Floats = np.empty(count, dtype=np.float32)
        room: Floats = np.empty((min(count, self._slice_rows), self._codes.shape[1]), dtype=np.float32)
        for start in range(0, count, self._slice_rows):
            stop = min(count, start + self._slice_rows)
            products[start:stop] = self._dots(self._codes[start:stop], query, room[: stop - start])
        products *= self._scales[:count]
        return products

    def dots_at(self, places: Places, query: Floats) -> Floats:
        """Return the dot products of ``query`` with the rows at ``places``."""
        products: Floats = np.empty(len(places), dtype=np.float32)
        room: Floats = np.empty((min(len(places), self._slice_rows), self._codes.shape[1]), dtype=np.float32)
        for start in range(0, len(places), self._slice_rows):
            slice_places = places[start : start + self._slice_rows]
            dots = self._dots(self._codes[slice_places], query, room[: len(slice_places)])
            products[start : start + len(slice_places)] = dots
        products *= self._scales[places]
        return products

    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        return self._codes, self._scales


class ByteCodes(Codes):
    """8 bits per number."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__(np.empty((rows, width), dtype=np.int8), np.empty(rows, dtype=np.float32))

    def store(self, start: int, rows: Floats) -> None:
        place = slice(start, start + len(rows))
        scales = np.maximum(np.abs(rows).max(axis=1, initial=0) / _MAX_INT8, _MIN_SCALE)
        self._codes[place] = np.rint(rows / scales[:, np.newaxis])
        self._scales[place] = scales

    def _dots(self, codes: CodeArray, query: Floats, room: Floats) -> Floats:
        # Converting a slice to float32 and multiplying that is faster than any integer product in numpy.
        np.copyto(room, codes)
        products: Floats = room @ query
        return products

    def rows_at(self, places: Places) -> Floats:
        rows = self._codes[places].astype(np.float32)
        rows *= self._scales[places, np.newaxis]
        return rows


class PackedCodes(Codes):
    """2 or 4 bits per number, for rows that are roughly normally distributed.

    A row is divided into as many shares as a byte holds codes; the lowest bits of a byte hold a number of the first
    share, and so on.
    """

    def __init__(self, rows: int, width: int, bits: int) -> None:
        self._width = width
        self._bits = bits
        self._max_code = 2**bits - 1
        self._middle = np.float32(self._max_code / 2)
        row_bytes = -(-width * bits // 8)
        super().__init__(np.empty((rows, row_bytes), dtype=np.uint8), np.empty(rows, dtype=np.float16))

    def store(self, start: int, rows: Floats) -> None:
        """Store ``rows``; the scale preserves the dot product of a row with itself."""
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
        """Yield each share's first bit, and the slice of a row that the share contains."""
        size = self._codes.shape[1]
        for number in range(8 // self._bits):
            start = min(size * number, self._width)
            yield self._bits * number, slice(start, min(start + size, self._width))

    def _dots(self, codes: CodeArray, query: Floats, room: Floats) -> Floats:
        products: Floats = np.full(len(codes), -self._middle * query.sum(), dtype=np.float32)
        for shift, share in self._shares():
            # Instead of shifting the bits, scale the query down.
            scaled = query[share] / np.float32(2**shift)
            part = room[:, : len(scaled)]
            np.copyto(part, codes[:, : len(scaled)] & (self._max_code << shift))
            products += part @ scaled
        return products

    def rows_at(self, places: Places) -> Floats:
        rows: Floats = np.empty((len(places), self._width), dtype=np.float32)
        codes = self._codes[places]
        for shift, share in self._shares():
            rows[:, share] = codes[:, : share.stop - share.start] >> shift & self._max_code
        rows -= self._middle
        rows *= self._scales[places, np.newaxis]
        return rows


# -- Rotate vectors so that their first numbers contribute most to a dot product.

#: Where each part of a rotated row ends, as a share of its numbers. The first part is compared first; with MiniLM, it
#: accounts for four fifths of a vector's length.
_PART_ENDS = (1 / 3, 1 / 2, 1)


@dataclass(frozen=True, slots=True)
class Rotation:
    """New axes, most informative first. Dot products are preserved."""

    #: Shape (dimension, dimension); its columns are the new axes.
    axes: Floats
    #: The rotated numbers that belong to each part.
    parts: tuple[slice, ...]

    @classmethod
    def fit(cls, moments: NDArray[np.float64]) -> Rotation:
        """Return the rotation for rows whose sum of outer products is ``moments``."""
        _, axes = np.linalg.eigh(moments)
        ends = [max(1, round(len(axes) * share)) for share in _PART_ENDS]
        parts = tuple(slice(start, stop) for start, stop in pairwise([0, *ends]))
        # A random rotation within each part gives all its numbers a similar scale, so that few bits suffice.
        rotated = [axes[:, ::-1][:, part] @ _random_rotation(part.stop - part.start) for part in parts]
        return cls(np.ascontiguousarray(np.concatenate(rotated, axis=1), dtype=np.float32), parts)

    def apply(self, rows: Floats) -> Floats:
        rotated: Floats = rows @ self.axes
        return rotated

    def invert(self, rotated: Floats) -> Floats:
        rows: Floats = rotated @ self.axes.T
        return rows


def second_moments(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the sum of the outer products of ``rows``."""
    floats = rows.astype(np.float32)
    return (floats.T @ floats).astype(np.float64)


def _random_rotation(size: int) -> NDArray[np.float64]:
    """Return a random rotation of ``size`` dimensions, the same on each call."""
    return np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))[0]


Ids: TypeAlias = NDArray[np.int64]
Groups: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

#: Rows per block. A block is allocated at full size, since memory that was never written costs nothing.
BLOCK_ROWS = 32_768
#: Bits per number for each part of a narrow row (163 bytes). Compared with four bits throughout (209 bytes), this
#: misses 1 of the true best 100 among 500,000 rows; with two bits after the first part (145 bytes), 2 would be missed.
_NARROW_BITS = (4, 4, 2)
#: Number of rows rotated and quantised at a time.
_STORED_ROWS = 1_024
#: Maximum number of unsorted rows at the end of a block, which are scanned one by one; beyond that, the block is sorted
#: again.
_MAX_UNSORTED_ROWS = 1_024
#: Maximum number of groups compared one by one, which is faster than a lookup for each row.
_MAX_COMPARED_GROUPS = 6


class Block:
    """Ids, groups and flags of up to ``BLOCK_ROWS`` rows; a subclass stores the numbers.

    Rows are only appended or deleted in place, so a reader that has read the count may read that many rows without a
    lock.
    """

    def __init__(self) -> None:
        self.ids: Ids = np.empty(BLOCK_ROWS, dtype=np.int64)
        self.groups: Groups = np.empty(BLOCK_ROWS, dtype=np.int32)
        self.alive: Flags = np.zeros(BLOCK_ROWS, dtype=np.bool_)
        self.count = 0
        self.dead = 0
        #: Number of rows that are sorted by id, and their places in that order.
        self._sorted: tuple[int, NDArray[np.uint16]] = (0, np.zeros(0, dtype=np.uint16))

    def append(self, ids: Ids, groups: Groups, rows: NDArray[np.floating]) -> None:
        """Append ``rows``; there must be enough room."""
        stop = self.count + len(ids)
        self._store(self.count, rows)
        self.ids[self.count : stop] = ids
        self.groups[self.count : stop] = groups
        self.alive[self.count : stop] = True
        self.count = stop
        if stop == BLOCK_ROWS:
            self._sort(stop)

    def take(self, other: Block, places: Places) -> None:
        """Append the rows at ``places`` of ``other``, a block of the same kind."""
        stop = self.count + len(places)
        for own, source in zip(self._arrays(), other._arrays(), strict=True):
            own[self.count : stop] = source[places]
        self.alive[self.count : stop] = True
        self.count = stop

    def live_places(self, count: int) -> Places:
        """Return the places of the live rows among the first ``count``."""
        return np.flatnonzero(self.alive[:count])

    def find(self, count: int, wanted: Ids) -> Places:
        """Return the places of those live rows among the first ``count`` that have an id in ``wanted``.

        ``wanted`` is ascending, without duplicates.
        """
        if count - self._sorted[0] > _MAX_UNSORTED_ROWS:
            self._sort(count)
        sorted_count, order = self._sorted
        matches = [self._find_sorted(sorted_count, order, wanted)]
        if sorted_count < count:
            matches.append(sorted_count + np.flatnonzero(np.isin(self.ids[sorted_count:count], wanted)))
        places = np.sort(np.concatenate(matches))
        return places[(places < count) & self.alive[places]]

    def _sort(self, count: int) -> None:
        self._sorted = (count, np.argsort(self.ids[:count], kind="stable").astype(np.uint16))

    def _find_sorted(self, sorted_count: int, order: NDArray[np.uint16], wanted: Ids) -> Places:
        """Find ids, which may repeat, among the first ``sorted_count`` rows; ``order`` contains their places by id."""
        if not sorted_count:
            return np.zeros(0, dtype=np.intp)
        first, last = self.ids[order[0]], self.ids[order[-1]]
        in_range = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, last, "right")]
        if not len(in_range):
            return np.zeros(0, dtype=np.intp)
        sorter = order.astype(np.intp)
        ids = self.ids[:sorted_count]
        starts = np.searchsorted(ids, in_range, "left", sorter)
        sizes = np.searchsorted(ids, in_range, "right", sorter) - starts
        positions = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        return np.asarray(sorter[positions], dtype=np.intp)

    def visible(self, count: int, groups: ArrayLike | None) -> Flags | None:
        """Return which of the first ``count`` rows are live and in ``groups``; None if all are."""
        flags: Flags | None = self.alive[:count].copy() if self.dead else None
        if groups is not None:
            inside = _is_one_of(self.groups[:count], np.atleast_1d(np.asarray(groups, dtype=np.int32)))
            flags = inside if flags is None else flags & inside
        return flags

    def cosines(self, count: int, query: Floats) -> Floats:
        """Return the dot product of ``query`` with each of the first ``count`` rows."""
        raise NotImplementedError

    def rows_at(self, places: Places) -> Floats:
        raise NotImplementedError

    def cosines_at(self, places: Places, query: Floats) -> Floats:
        """Return the dot product of ``query`` with each of the rows at ``places``."""
        raise NotImplementedError

    @property
    def row_bytes(self) -> int:
        return sum(array.itemsize * int(np.prod(array.shape[1:])) for array in self._arrays()) + 1

    def _store(self, start: int, rows: NDArray[np.floating]) -> None:
        raise NotImplementedError

    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        """Return all arrays that have an entry for each row, except ``alive``."""
        return (self.ids, self.groups)


class ExactBlock(Block):
    """Unchanged rows, 4 bytes per number."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self._rows: Floats = np.empty((BLOCK_ROWS, dimension), dtype=np.float32)

    def cosines(self, count: int, query: Floats) -> Floats:
        products: Floats = self._rows[:count] @ query
        return products

    def rows_at(self, places: Places) -> Floats:
        return self._rows[places]

    def cosines_at(self, places: Places, query: Floats) -> Floats:
        products: Floats = self._rows[places] @ query
        return products

    def _store(self, start: int, rows: NDArray[np.floating]) -> None:
        self._rows[start : start + len(rows)] = rows

    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        return (*super()._arrays(), self._rows)


class QuantisedBlock(Block):
    """Rotated rows, quantised in three parts, each with its own scale; the first part alone gives a good estimate of a
    dot product.

    With 8 bits, a cosine is off by at most 0.003; in narrow rows, by 0.0065 on average (0.0059 with 4 bits throughout).
    """

    def __init__(self, rotation: Rotation, *, is_narrow: bool = False) -> None:
        """Create an empty block.

        Args:
            rotation: the same for all blocks of an index.
            is_narrow: store 4 or 2 bits per number instead of 8.
        """
        super().__init__()
        self.rotation = rotation
        widths = [part.stop - part.start for part in rotation.parts]
        self._codes: tuple[Codes, ...]
        if is_narrow:
            self._codes = tuple(
                PackedCodes(BLOCK_ROWS, width, bits) for width, bits in zip(widths, _NARROW_BITS, strict=True)
            )
        else:
            self._codes = tuple(ByteCodes(BLOCK_ROWS, width) for width in widths)

    def estimates(self, count: int, rotated: Floats) -> Floats:
        """Return the first part's contribution to the dot product of a rotated query with the first ``count`` rows."""
        return self._codes[0].dots(count, rotated[self.rotation.parts[0]])

    def estimates_at(self, places: Places, rotated: Floats) -> Floats:
        """Return the first part's contribution to the dot product with the rows at ``places``."""
        return self._codes[0].dots_at(places, rotated[self.rotation.parts[0]])

    def cosines(self, count: int, query: Floats) -> Floats:
        rotated = self.rotation.apply(query)
        products = self.estimates(count, rotated)
        for part, codes in self._later_parts():
            products += codes.dots(count, rotated[part])
        return products

    def remainders_at(self, places: Places, rotated: Floats) -> Floats:
        """Return the later parts' contribution to the dot product with the rows at ``places``."""
        products: Floats = np.zeros(len(places), dtype=np.float32)
        for part, codes in self._later_parts():
            products += codes.dots_at(places, rotated[part])
        return products

    def cosines_at(self, places: Places, query: Floats) -> Floats:
        """Return the dot products; rotating the query once is cheaper than rotating every row back."""
        rotated = self.rotation.apply(query)
        return self.estimates_at(places, rotated) + self.remainders_at(places, rotated)

    def rows_at(self, places: Places) -> Floats:
        return self.rotation.invert(np.concatenate([codes.rows_at(places) for codes in self._codes], axis=1))

    def _later_parts(self) -> Iterator[tuple[slice, Codes]]:
        return zip(self.rotation.parts[1:], self._codes[1:], strict=True)

    def _store(self, start: int, rows: NDArray[np.floating]) -> None:
        for first in range(0, len(rows), _STORED_ROWS):
            rotated = self.rotation.apply(rows[first : first + _STORED_ROWS].astype(np.float32))
            for part, codes in zip(self.rotation.parts, self._codes, strict=True):
                codes.store(start + first, rotated[:, part])

    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        return (*super()._arrays(), *(array for codes in self._codes for array in codes.arrays()))


def _is_one_of(row_groups: Groups, groups: Groups) -> Flags:
    if len(groups) > _MAX_COMPARED_GROUPS:
        return np.isin(row_groups, groups)
    flags: Flags = np.zeros(len(row_groups), dtype=np.bool_)
    for group in groups:
        flags |= row_groups == group
    return flags
