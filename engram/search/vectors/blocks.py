"""Blocks of rows for the vector index: as float32, or turned so that a third of the numbers, in few bits, tells most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.search.vectors.parts import Bytes, Floats, Packed, Part, Places

Ids: TypeAlias = NDArray[np.int64]
Groups: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

#: Rows of one block. Memory that no row has touched costs nothing, so a block is made at full size.
BLOCK_ROWS = 32_768
#: Where the parts of a turned row end, as shares of it. The first is looked at first; of MiniLM's rows it holds four
#: fifths of the length.
_PART_ENDS = (1 / 3, 1 / 2, 1)
#: Bits of a number of each part of a narrow row. Against four bits throughout (209 bytes a row) that loses one in 100 of
#: the true best 100 of 500,000 rows; two bits from the first part's end on (145 bytes) would lose two.
_NARROW_BITS = (4, 4, 2)
#: Rows that are turned and packed at a time.
_STORED_ROWS = 1_024
#: Rows behind the sorted ones of a block that are looked through one by one, before all are sorted anew.
_UNSORTED_ROWS = 1_024
#: Groups that are compared one by one, which is faster than looking each row's group up.
_FEW_GROUPS = 6


class Block:
    """Ids, groups and life of up to ``BLOCK_ROWS`` rows; how the numbers are kept is the subclass's.

    Rows are only ever appended, and die in place: who knows a count may read up to it without a lock.
    """

    def __init__(self) -> None:
        """An empty block."""
        self.ids: Ids = np.empty(BLOCK_ROWS, dtype=np.int64)
        self.groups: Groups = np.empty(BLOCK_ROWS, dtype=np.int32)
        self.alive: Flags = np.zeros(BLOCK_ROWS, dtype=np.bool_)
        self.count = 0
        self.dead = 0
        #: How many rows are sorted by their ids, and their places in that order; made when ids are looked for.
        self._sorted: tuple[int, NDArray[np.uint16]] = (0, np.zeros(0, dtype=np.uint16))

    def append(self, ids: Ids, groups: Groups, rows: NDArray[np.floating]) -> None:
        """Put ``rows`` behind the last one; there must be room."""
        stop = self.count + len(ids)
        self._store(self.count, rows)
        self.ids[self.count : stop] = ids
        self.groups[self.count : stop] = groups
        self.alive[self.count : stop] = True
        self.count = stop
        if stop == BLOCK_ROWS:
            self._sort(stop)

    def take(self, other: Block, places: Places) -> None:
        """Put the living rows of ``other``, a block of the same kind, at ``places`` behind the last one."""
        stop = self.count + len(places)
        for mine, theirs in zip(self._columns(), other._columns(), strict=True):
            mine[self.count : stop] = theirs[places]
        self.alive[self.count : stop] = True
        self.count = stop

    def living(self, count: int) -> Places:
        """Places of the rows alive among the first ``count``."""
        return np.flatnonzero(self.alive[:count])

    def find(self, count: int, wanted: Ids) -> Places:
        """Places of the living among the first ``count`` rows whose id is in ``wanted`` (ascending, each once)."""
        if count - self._sorted[0] > _UNSORTED_ROWS:
            self._sort(count)
        known, order = self._sorted
        found = [self._find_sorted(known, order, wanted)]
        if known < count:
            found.append(known + np.flatnonzero(np.isin(self.ids[known:count], wanted)))
        places = np.sort(np.concatenate(found))
        return places[(places < count) & self.alive[places]]

    def _sort(self, count: int) -> None:
        self._sorted = (count, np.argsort(self.ids[:count], kind="stable").astype(np.uint16))

    def _find_sorted(self, known: int, order: NDArray[np.uint16], wanted: Ids) -> Places:
        """The same among the first ``known`` rows, whose places stand in ``order`` by id; an id may stand there twice."""
        if not known:
            return np.zeros(0, dtype=np.intp)
        first, last = self.ids[order[0]], self.ids[order[-1]]
        some = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, last, "right")]
        if not len(some):
            return np.zeros(0, dtype=np.intp)
        sorter = order.astype(np.intp)
        starts = np.searchsorted(self.ids[:known], some, "left", sorter)
        sizes = np.searchsorted(self.ids[:known], some, "right", sorter) - starts
        at = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        return np.asarray(sorter[at], dtype=np.intp)

    def seen(self, count: int, groups: ArrayLike | None, allowed: Ids | None) -> Flags | None:
        """Which of the first ``count`` rows are alive, in ``groups`` and ``allowed``; None for all of them."""
        flags: Flags | None = self.alive[:count].copy() if self.dead else None
        if groups is not None:
            inside = _is_one_of(self.groups[:count], np.atleast_1d(np.asarray(groups, dtype=np.int32)))
            flags = inside if flags is None else flags & inside
        if allowed is not None:
            inside = np.isin(self.ids[:count], allowed)
            flags = inside if flags is None else flags & inside
        return flags

    def cosines(self, count: int, query: Floats) -> Floats:
        """The dot product of ``query`` with each of the first ``count`` rows."""
        raise NotImplementedError

    def rows_at(self, places: Places) -> Floats:
        """The rows at ``places`` as float32."""
        raise NotImplementedError

    def cosines_at(self, places: Places, query: Floats) -> Floats:
        """The dot product of ``query`` with each of the rows at ``places``."""
        raise NotImplementedError

    @property
    def row_bytes(self) -> int:
        """Memory that one row takes."""
        return sum(column.itemsize * int(np.prod(column.shape[1:])) for column in self._columns()) + 1

    def _store(self, start: int, rows: NDArray[np.floating]) -> None:
        raise NotImplementedError

    def _columns(self) -> tuple[NDArray[np.generic], ...]:
        """Every array with one entry a row, but for ``alive``."""
        return (self.ids, self.groups)


class ExactBlock(Block):
    """Rows as they came, 4 bytes a number."""

    def __init__(self, dimension: int) -> None:
        """An empty block for rows of ``dimension`` numbers."""
        super().__init__()
        self._rows: Floats = np.empty((BLOCK_ROWS, dimension), dtype=np.float32)

    def cosines(self, count: int, query: Floats) -> Floats:
        """See ``Block.cosines``."""
        answer: Floats = self._rows[:count] @ query
        return answer

    def rows_at(self, places: Places) -> Floats:
        """See ``Block.rows_at``."""
        return self._rows[places]

    def cosines_at(self, places: Places, query: Floats) -> Floats:
        """See ``Block.cosines_at``."""
        answer: Floats = self._rows[places] @ query
        return answer

    def _store(self, start: int, rows: NDArray[np.floating]) -> None:
        self._rows[start : start + len(rows)] = rows

    def _columns(self) -> tuple[NDArray[np.generic], ...]:
        return (*super()._columns(), self._rows)


@dataclass(frozen=True, slots=True)
class Turn:
    """A rotation after which the first numbers of a row tell the most about it; dot products stay the same."""

    #: Shape (dimension, dimension); its columns are the new axes, the telling ones first.
    axes: Floats
    #: Which of the new numbers a part has; the first one is looked at first.
    spans: tuple[slice, ...]

    @classmethod
    def fitted_to(cls, moments: NDArray[np.float64]) -> Turn:
        """The turn that suits rows whose sum of outer products is ``moments``."""
        _, axes = np.linalg.eigh(moments)
        ends = [max(1, round(len(axes) * share)) for share in _PART_ENDS]
        spans = tuple(slice(start, stop) for start, stop in pairwise([0, *ends]))
        # Mixed anew, the numbers of a part are of one size, and few bits suit all of them.
        parts = [axes[:, ::-1][:, span] @ _mixing(span.stop - span.start) for span in spans]
        return cls(np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32), spans)


class QuantisedBlock(Block):
    """Turned rows in few bits, in three parts with one scale each; the first part alone gives a good guess.

    In 8 bits a number a cosine is off by 0.003 at most, in narrow rows by 0.0065 on average (0.0059 in 4 bits).
    """

    def __init__(self, turn: Turn, *, is_narrow: bool = False) -> None:
        """An empty block; ``turn`` is the same for all blocks of an index. ``is_narrow``: 2 or 4 bits a number."""
        super().__init__()
        self.turn = turn
        widths = [span.stop - span.start for span in turn.spans]
        self._parts: tuple[Part, ...]
        if is_narrow:
            self._parts = tuple(Packed(BLOCK_ROWS, *form) for form in zip(widths, _NARROW_BITS, strict=True))
        else:
            self._parts = tuple(Bytes(BLOCK_ROWS, width) for width in widths)

    def turned(self, query: Floats) -> Floats:
        """``query`` as ``guesses`` and ``rest_at`` want it."""
        answer: Floats = query @ self.turn.axes
        return answer

    def guesses(self, count: int, turned: Floats) -> Floats:
        """What the first part says about the dot product of each of the first ``count`` rows."""
        return self._parts[0].dots(count, turned[self.turn.spans[0]])

    def guesses_at(self, places: Places, turned: Floats) -> Floats:
        """What the first part says about the rows at ``places``."""
        return self._parts[0].dots_at(places, turned[self.turn.spans[0]])

    def cosines(self, count: int, query: Floats) -> Floats:
        """See ``Block.cosines``."""
        turned = self.turned(query)
        answer = self.guesses(count, turned)
        for span, part in self._rest():
            answer += part.dots(count, turned[span])
        return answer

    def rest_at(self, places: Places, turned: Floats) -> Floats:
        """What the guesses for the rows at ``places`` lack to the dot product."""
        answer: Floats = np.zeros(len(places), dtype=np.float32)
        for span, part in self._rest():
            answer += part.dots_at(places, turned[span])
        return answer

    def cosines_at(self, places: Places, query: Floats) -> Floats:
        """See ``Block.cosines_at``; turns the query once instead of every row back."""
        turned = self.turned(query)
        return self.guesses_at(places, turned) + self.rest_at(places, turned)

    def rows_at(self, places: Places) -> Floats:
        """See ``Block.rows_at``."""
        turned = np.concatenate([part.at(places) for part in self._parts], axis=1)
        answer: Floats = turned @ self.turn.axes.T
        return answer

    def _rest(self) -> Iterator[tuple[slice, Part]]:
        """All parts but the first, and which numbers they have."""
        return zip(self.turn.spans[1:], self._parts[1:], strict=True)

    def _store(self, start: int, rows: NDArray[np.floating]) -> None:
        for first in range(0, len(rows), _STORED_ROWS):
            turned = rows[first : first + _STORED_ROWS].astype(np.float32) @ self.turn.axes
            for span, part in zip(self.turn.spans, self._parts, strict=True):
                part.store(start + first, turned[:, span])

    def _columns(self) -> tuple[NDArray[np.generic], ...]:
        return (*super()._columns(), *(column for part in self._parts for column in part.columns()))


def _mixing(size: int) -> NDArray[np.float64]:
    """A rotation of ``size`` dimensions without any meaning, the same at each call."""
    return np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))[0]


def _is_one_of(marks: Groups, groups: Groups) -> Flags:
    if len(groups) > _FEW_GROUPS:
        return np.isin(marks, groups)
    flags: Flags = np.zeros(len(marks), dtype=np.bool_)
    for group in groups:
        flags |= marks == group
    return flags
