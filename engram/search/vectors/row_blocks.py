"""Blocks of rows for the vector index: exact as float32, or rotated and quantised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.search.vectors.codes import ByteCodes, Codes, Floats, PackedCodes, Places
from engram.search.vectors.rotation import Rotation

Ids: TypeAlias = NDArray[np.int64]
Groups: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

#: Rows of one block. Memory that was never written costs nothing, so a block is allocated at full size.
BLOCK_ROWS = 32_768
#: Bits for each number of each part of a narrow row (163 bytes). Compared with four bits throughout (209 bytes) that
#: loses one in 100 of the true best 100 of 500,000 rows; two bits after the first part (145 bytes) would lose two.
_NARROW_BITS = (4, 4, 2)
#: Rows that are rotated and quantised at a time.
_STORED_ROWS = 1_024
#: Maximum number of rows at the end of a block that are searched one by one; beyond, all are sorted again.
_MAX_UNSORTED_ROWS = 1_024
#: Maximum number of groups that are compared one by one, which is faster than a look-up for each row.
_MAX_COMPARED_GROUPS = 6


class Block:
    """Ids, groups and flags of up to ``BLOCK_ROWS`` rows; a subclass stores the numbers.

    Rows are only appended, and deleted in place: a reader that knows a count may read up to it without a lock.
    """

    def __init__(self) -> None:
        """Create an empty block."""
        self.ids: Ids = np.empty(BLOCK_ROWS, dtype=np.int64)
        self.groups: Groups = np.empty(BLOCK_ROWS, dtype=np.int32)
        self.alive: Flags = np.zeros(BLOCK_ROWS, dtype=np.bool_)
        self.count = 0
        self.dead = 0
        #: Number of rows that are sorted by id, and their places in that order; built by ``find``.
        self._sorted: tuple[int, NDArray[np.uint16]] = (0, np.zeros(0, dtype=np.uint16))

    def append(self, ids: Ids, groups: Groups, rows: NDArray[np.floating]) -> None:
        """Append ``rows``; there must be room."""
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
        """Return the places of the live rows among the first ``count`` with an id in ``wanted``.

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
        """Find among the first ``sorted_count`` rows, whose places ``order`` gives by id; an id may have several."""
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

    def visible(self, count: int, groups: ArrayLike | None, allowed: Ids | None) -> Flags | None:
        """Return which of the first ``count`` rows are live, in ``groups`` and ``allowed``; None for all of them."""
        flags: Flags | None = self.alive[:count].copy() if self.dead else None
        if groups is not None:
            inside = _is_one_of(self.groups[:count], np.atleast_1d(np.asarray(groups, dtype=np.int32)))
            flags = inside if flags is None else flags & inside
        if allowed is not None:
            inside = np.isin(self.ids[:count], allowed)
            flags = inside if flags is None else flags & inside
        return flags

    def cosines(self, count: int, query: Floats) -> Floats:
        """Return the dot product of ``query`` with each of the first ``count`` rows."""
        raise NotImplementedError

    def rows_at(self, places: Places) -> Floats:
        """Return the rows at ``places`` as float32."""
        raise NotImplementedError

    def cosines_at(self, places: Places, query: Floats) -> Floats:
        """Return the dot product of ``query`` with each of the rows at ``places``."""
        raise NotImplementedError

    @property
    def row_bytes(self) -> int:
        """Memory of one row, in bytes."""
        return sum(array.itemsize * int(np.prod(array.shape[1:])) for array in self._arrays()) + 1

    def _store(self, start: int, rows: NDArray[np.floating]) -> None:
        raise NotImplementedError

    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        """Return every array with an entry for each row, except ``alive``."""
        return (self.ids, self.groups)


class ExactBlock(Block):
    """Rows as they were added, 4 bytes for each number."""

    def __init__(self, dimension: int) -> None:
        """Create an empty block for rows of ``dimension`` numbers."""
        super().__init__()
        self._rows: Floats = np.empty((BLOCK_ROWS, dimension), dtype=np.float32)

    def cosines(self, count: int, query: Floats) -> Floats:
        """Return the dot product with each of the first ``count`` rows."""
        products: Floats = self._rows[:count] @ query
        return products

    def rows_at(self, places: Places) -> Floats:
        """Return the rows at ``places``."""
        return self._rows[places]

    def cosines_at(self, places: Places, query: Floats) -> Floats:
        """Return the dot product with each of the rows at ``places``."""
        products: Floats = self._rows[places] @ query
        return products

    def _store(self, start: int, rows: NDArray[np.floating]) -> None:
        self._rows[start : start + len(rows)] = rows

    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        return (*super()._arrays(), self._rows)


class QuantisedBlock(Block):
    """Rotated rows in few bits, in three parts with a scale each; the first part alone estimates a dot product well.

    In 8 bits a cosine is off by 0.003 at most, in narrow rows by 0.0065 on average (0.0059 in 4 bits).
    """

    def __init__(self, rotation: Rotation, *, is_narrow: bool = False) -> None:
        """Create an empty block.

        Args:
            rotation: the same for all blocks of an index.
            is_narrow: store 4 or 2 bits for each number instead of 8.
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
        """Return what the first part adds to the dot product of a rotated query with the first ``count`` rows."""
        return self._codes[0].dots(count, rotated[self.rotation.parts[0]])

    def estimates_at(self, places: Places, rotated: Floats) -> Floats:
        """Return what the first part adds to the dot product with the rows at ``places``."""
        return self._codes[0].dots_at(places, rotated[self.rotation.parts[0]])

    def cosines(self, count: int, query: Floats) -> Floats:
        """Return the dot product with each of the first ``count`` rows."""
        rotated = self.rotation.apply(query)
        products = self.estimates(count, rotated)
        for part, codes in self._later_parts():
            products += codes.dots(count, rotated[part])
        return products

    def remainders_at(self, places: Places, rotated: Floats) -> Floats:
        """Return what all parts but the first add to the dot product with the rows at ``places``."""
        products: Floats = np.zeros(len(places), dtype=np.float32)
        for part, codes in self._later_parts():
            products += codes.dots_at(places, rotated[part])
        return products

    def cosines_at(self, places: Places, query: Floats) -> Floats:
        """Return the dot products; rotates the query once instead of every row back."""
        rotated = self.rotation.apply(query)
        return self.estimates_at(places, rotated) + self.remainders_at(places, rotated)

    def rows_at(self, places: Places) -> Floats:
        """Return the rows at ``places``."""
        return self.rotation.invert(np.concatenate([codes.rows_at(places) for codes in self._codes], axis=1))

    def _later_parts(self) -> Iterator[tuple[slice, Codes]]:
        """Return all parts but the first, each with its codes."""
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
