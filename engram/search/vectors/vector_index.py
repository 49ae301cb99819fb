"""An in-memory vector index: exact while it is small, quantised to 8 or about 3 bits per number when it is large."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.errors import EmbeddingError
from engram.search.vectors.row_blocks import (
    BLOCK_ROWS,
    Block,
    ExactBlock,
    Flags,
    Floats,
    Groups,
    Ids,
    Places,
    QuantisedBlock,
    Rotation,
    second_moments,
)

#: Maximum number of rows in an exact index (23 MB with 384 numbers a row); quantised rows take a quarter of the memory.
MAX_EXACT_ROWS = 15_000
#: Maximum number of rows with 8 bits per number (200 MB); above that, half of a row's numbers have 4 bits and the rest
#: 2.
MAX_BYTE_ROWS = 500_000
#: Share of the rows that are re-ranked using all parts of a row, within the bounds below. The shortlist contains 99.5 %
#: of the true top 50, even for queries that don't resemble any row.
SHORTLIST_SHARE = 0.02
MIN_SHORTLIST, MAX_SHORTLIST = 2_000, 6_000
#: The shortlist has at least this many rows for each hit requested.
_SHORTLIST_PER_HIT = 20
#: A rotation is fitted to at most this many stored rows and this many new ones.
_MAX_FITTED_ROWS = 8_000
#: Share of deleted rows above which the index is compacted.
_MAX_DEAD_SHARE = 0.25
#: With fewer deleted rows than this, the index is never compacted.
_MIN_DEAD_ROWS = 1_024

# -- Find the nearest rows: compute every cosine, or shortlist rows by an estimate and compute only their cosines.

#: If less than this share of a block's rows is visible, estimates are computed for the visible rows only.
_MIN_DENSE_SHARE = 0.25
#: Size of the sample from which a bound on the largest values is derived.
_SAMPLE_ROWS = 20_000

#: Blocks, each with the number of its rows that may be read.
View: TypeAlias = tuple[tuple[Block, int], ...]


def all_cosines(view: View, visible: Sequence[Flags | None], query: Floats) -> tuple[Ids, Floats]:
    """Return the id and the cosine of every visible row.

    For each block, ``visible`` contains a flag per row, or None if all its rows are visible.
    """
    ids, cosines = [], []
    for (block, count), flags in zip(view, visible, strict=True):
        block_cosines = block.cosines(count, query)
        ids.append(block.ids[:count] if flags is None else block.ids[:count][flags])
        cosines.append(block_cosines if flags is None else block_cosines[flags])
    return joined_ids(ids), np.concatenate(cosines) if cosines else np.zeros(0, np.float32)


def shortlisted_cosines(
    view: View, visible: Sequence[Flags | None], query: Floats, shortlist: int
) -> tuple[Ids, Floats]:
    """From quantised blocks, return ids and cosines of the ``shortlist`` visible rows with the largest estimates."""
    blocks = [(block, count) for block, count in view if isinstance(block, QuantisedBlock)]
    rotated = blocks[0][0].rotation.apply(query)
    places, estimates = _estimates(blocks, visible, rotated)
    if len(estimates) > shortlist:
        largest = _largest(estimates, shortlist)
        estimates = estimates[largest]
        places = largest if places is None else places[largest]
    elif places is None:
        places = np.arange(len(estimates))
    ids, cosines, start = [], [], 0
    for block, count in blocks:
        in_block = slice(*np.searchsorted(places, (start, start + count)))
        own_places = places[in_block] - start
        ids.append(block.ids[own_places])
        cosines.append(estimates[in_block] + block.remainders_at(own_places, rotated))
        start += count
    return np.concatenate(ids), np.concatenate(cosines)


def _estimates(
    blocks: Sequence[tuple[QuantisedBlock, int]], visible: Sequence[Flags | None], rotated: Floats
) -> tuple[Places | None, Floats]:
    """Return the visible rows' places, numbered across all blocks (None if all are visible), and their estimates."""
    if all(flags is None for flags in visible):
        estimates: Floats = np.empty(sum(count for _, count in blocks), dtype=np.float32)
        start = 0
        for block, count in blocks:
            estimates[start : start + count] = block.estimates(count, rotated)
            start += count
        return None, estimates
    places, parts, start = [], [], 0
    for (block, count), flags in zip(blocks, visible, strict=True):
        own_places = _places(flags, count)
        if len(own_places) < _MIN_DENSE_SHARE * count:
            parts.append(block.estimates_at(own_places, rotated))
        else:
            parts.append(block.estimates(count, rotated)[own_places])
        places.append(own_places + start)
        start += count
    return np.concatenate(places), np.concatenate(parts)


def _largest(values: Floats, count: int) -> Places:
    """Return the sorted places of the ``count`` largest values.

    A bound from a sample first excludes most values, which is faster than partitioning all of them.
    """
    sample = values[:: max(1, len(values) // _SAMPLE_ROWS)]
    rank = min(len(sample), 2 + round(1.5 * count * len(sample) / len(values)))
    above = np.flatnonzero(values >= np.partition(sample, len(sample) - rank)[len(sample) - rank])
    if len(above) < count:
        above = np.arange(len(values))
    surplus = len(above) - count
    return np.sort(above[np.argpartition(values[above], surplus)[surplus:]]) if surplus else above


def best_per_id(ids: Ids, cosines: Floats, limit: int) -> tuple[Ids, Floats]:
    """Return the ``limit`` ids with the highest cosines, each once with its highest, in descending order.

    Ties keep the order of the rows.
    """
    take = min(len(ids), 4 * max(limit, 0))
    while take:
        places = np.argpartition(-cosines, take - 1)[:take]
        places = places[np.lexsort((places, -cosines[places]))]
        _, first = np.unique(ids[places], return_index=True)
        if len(first) >= limit or take == len(ids):
            best = places[np.sort(first)[:limit]]
            return ids[best], cosines[best]
        take = min(len(ids), 4 * take)
    return np.zeros(0, np.int64), np.zeros(0, np.float32)


def joined_ids(parts: Sequence[Ids]) -> Ids:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


class VectorIndex:
    """Unit vectors, each with an id and a group. An id may have several rows, of which only the best counts.

    One thread may write while any number of threads read. A reader sees the rows that existed when it began, except
    those removed in the meantime. Removed rows are skipped immediately; their memory is freed later.
    """

    def __init__(
        self, dimension: int, *, max_exact_rows: int = MAX_EXACT_ROWS, max_byte_rows: int = MAX_BYTE_ROWS
    ) -> None:
        """Create an empty index for rows of ``dimension`` numbers.

        Above ``max_exact_rows`` rows it is approximate; above ``max_byte_rows``, a row takes 40 % of the memory that it
        would take with 8 bits per number.
        """
        self.dimension = dimension
        self._max_exact_rows, self._max_byte_rows = max_exact_rows, max_byte_rows
        self._expected_rows = 0
        self._is_narrow = False
        self._rotation: Rotation | None = None
        self._view: View = ()
        self._write_lock = threading.Lock()

    def __len__(self) -> int:
        return sum(count - block.dead for block, count in self._view)

    @property
    def bytes_used(self) -> int:
        """Memory used by the rows, in bytes."""
        return sum(count * block.row_bytes for block, count in self._view)

    @property
    def ids(self) -> Ids:
        """The ids of the live rows, in insertion order."""
        return joined_ids([block.ids[:count][block.alive[:count]] for block, count in self._view])

    def expect(self, rows: int) -> None:
        """Announce how many rows the index will have, so that even the first ones get the format for that number."""
        self._expected_rows = rows

    def add(self, ids: ArrayLike, rows: ArrayLike, groups: ArrayLike | None = None) -> None:
        """Add rows. Existing rows with the same ids are kept; remove them first to replace them.

        Args:
            rows: shape (n, dimension), of any floating-point type.
            groups: a number for each row, such as its project's id; 0 by default.

        Raises:
            EmbeddingError: the shapes don't match.
        """
        ids, matrix = np.asarray(ids, dtype=np.int64), np.asarray(rows)
        row_groups = np.zeros(len(ids), np.int32) if groups is None else np.asarray(groups, dtype=np.int32)
        if matrix.shape != (len(ids), self.dimension) or len(row_groups) != len(ids):
            raise EmbeddingError(
                f"vectors of shape {matrix.shape} do not match {len(ids)} ids and dimension {self.dimension}"
            )
        with self._write_lock:
            total = max(self._expected_rows, len(self) + len(ids))
            if self._rotation is None and total > self._max_exact_rows:
                self._is_narrow = total > self._max_byte_rows
                self._quantise(matrix)
            elif not self._is_narrow and total > self._max_byte_rows and self._rotation is not None:
                self._narrow()
            blocks = [block for block, _ in self._view]
            self._append(blocks, ids, row_groups, matrix)
            self._publish(blocks)

    def remove(self, ids: ArrayLike) -> int:
        """Remove all rows of ``ids``; return how many there were."""
        wanted = np.unique(np.asarray(ids, dtype=np.int64))
        removed = 0
        with self._write_lock:
            for block, count in self._view:
                places = block.find(count, wanted)
                # Update the count first: readers check the flags only if it isn't 0.
                block.dead += len(places)
                block.alive[places] = False
                removed += len(places)
            dead = sum(block.dead for block, _ in self._view)
            if dead > max(_MIN_DEAD_ROWS, _MAX_DEAD_SHARE * sum(count for _, count in self._view)):
                self._compact()
        return removed

    def top(self, query: ArrayLike, limit: int, *, groups: ArrayLike | None = None) -> tuple[Ids, Floats]:
        """Return the best ``limit`` ids with their cosines, best first."""
        vector = self._checked(query)
        view = self._view
        visible = [block.visible(count, groups) for block, count in view]
        total = sum(count for _, count in view)
        shortlist = round(min(max(SHORTLIST_SHARE * total, MIN_SHORTLIST), MAX_SHORTLIST))
        shortlist = max(shortlist, _SHORTLIST_PER_HIT * limit)
        if total <= shortlist or not isinstance(view[0][0], QuantisedBlock):
            ids, cosines = all_cosines(view, visible, vector)
        else:
            ids, cosines = shortlisted_cosines(view, visible, vector, shortlist)
        return best_per_id(ids, cosines, limit)

    def scores_of(self, query: ArrayLike, ids: ArrayLike) -> Floats:
        """Return the best cosine for each of ``ids``, in the same order; NaN for an id without a row."""
        wanted, places = np.unique(np.asarray(ids, dtype=np.int64), return_inverse=True)
        vector = self._checked(query)
        best: Floats = np.full(len(wanted), -np.inf, dtype=np.float32)
        for block, count in self._view:
            rows = block.find(count, wanted)
            if len(rows):
                np.maximum.at(best, np.searchsorted(wanted, block.ids[rows]), block.cosines_at(rows, vector))
        best[np.isneginf(best)] = np.nan
        return best[places]

    def mean_cosine(self, query: ArrayLike, max_rows: int, *, groups: ArrayLike | None = None) -> tuple[float, int]:
        """Return the mean cosine of the rows in ``groups``, and the number of these rows.

        The mean is estimated from at most ``max_rows`` of them.
        """
        vector = self._checked(query)
        view = self._view
        places = [_places(block.visible(count, groups), count) for block, count in view]
        rows = sum(map(len, places))
        step = max(1, -(-rows // max_rows))
        cosines = [
            block.cosines_at(block_places[::step], vector)
            for (block, _), block_places in zip(view, places, strict=True)
            if len(block_places)
        ]
        return (float(np.concatenate(cosines).mean()) if cosines else 0.0), rows

    def _checked(self, query: ArrayLike) -> Floats:
        vector = np.ascontiguousarray(query, dtype=np.float32)
        if vector.shape != (self.dimension,):
            raise EmbeddingError(f"a query of shape {vector.shape} does not match dimension {self.dimension}")
        return vector

    def _new_block(self) -> Block:
        if self._rotation is None:
            return ExactBlock(self.dimension)
        return QuantisedBlock(self._rotation, is_narrow=self._is_narrow)

    def _append(self, blocks: list[Block], ids: Ids, groups: Groups, rows: NDArray[np.floating]) -> None:
        """Append rows to the last of ``blocks``, and to new blocks once it is full."""
        start = 0
        while start < len(ids):
            if not blocks or blocks[-1].count == BLOCK_ROWS:
                blocks.append(self._new_block())
            stop = min(len(ids), start + BLOCK_ROWS - blocks[-1].count)
            blocks[-1].append(ids[start:stop], groups[start:stop], rows[start:stop])
            start = stop

    def _publish(self, blocks: Sequence[Block]) -> None:
        self._view = tuple((block, block.count) for block in blocks)

    def _quantise(self, new_rows: NDArray[np.floating]) -> None:
        """Quantise the stored rows and all future ones, with a rotation fitted to the stored and the new rows."""
        moments = second_moments(new_rows[:: 1 + len(new_rows) // _MAX_FITTED_ROWS])
        for block, count in self._view:
            moments += second_moments(block.rows_at(block.live_places(count)[:: 1 + len(self) // _MAX_FITTED_ROWS]))
        self._rotation = Rotation.fit(moments)
        blocks: list[Block] = []
        for block, count in self._view:
            places = block.live_places(count)
            self._append(blocks, block.ids[places], block.groups[places], block.rows_at(places))
        self._publish(blocks)

    def _narrow(self) -> None:
        """Convert the rows to fewer bits per number, block by block, to use little extra memory."""
        self._is_narrow = True
        for number, (block, count) in enumerate(self._view):
            narrow, places = self._new_block(), block.live_places(count)
            narrow.append(block.ids[places], block.groups[places], block.rows_at(places))
            self._view = (*self._view[:number], (narrow, narrow.count), *self._view[number + 1 :])

    def _compact(self) -> None:
        """Copy the live rows into new blocks, block by block, to use little extra memory."""
        compacted = [self._new_block()]
        waiting = list(self._view)
        while waiting:
            block, count = waiting.pop(0)
            places = block.live_places(count)
            while len(places):
                room = BLOCK_ROWS - compacted[-1].count
                compacted[-1].take(block, places[:room])
                places = places[room:]
                if len(places):
                    compacted.append(self._new_block())
            self._view = (*((done, done.count) for done in compacted), *waiting)


def _places(flags: Flags | None, count: int) -> Places:
    """Return the places of the rows whose flags are set, or of all ``count`` rows if ``flags`` is None."""
    return np.arange(count) if flags is None else np.flatnonzero(flags)
