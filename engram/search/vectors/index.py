"""Vectors in memory, searched as a whole: exact while they are few, in 8 bits a number or about 3 when they are many."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.errors import EmbeddingError
from engram.search.vectors.blocks import BLOCK_ROWS, Block, ExactBlock, Flags, Groups, Ids, QuantisedBlock, Turn
from engram.search.vectors.parts import Floats, Places

#: Up to so many rows an index is exact (23 MB at 384 numbers a row); beyond, it takes a quarter of the memory.
EXACT_LIMIT = 15_000
#: Beyond so many rows (200 MB) a row's first half takes 4 bits a number instead of 8, its second half 2.
BYTE_LIMIT = 500_000
#: Rows that are looked at in full after the first guess: this share of all, within bounds. They hold 99.5 % of the
#: true best 50, also for queries that resemble none of the rows.
SHORTLIST_SHARE = 0.02
FEWEST_SHORTLISTED, MOST_SHORTLISTED = 2_000, 6_000
#: Shortlist for each hit that is asked for, where that is more.
_SHORTLIST_A_HIT = 20
#: Below this share of a block's rows their guesses are made one by one.
_FEW_SHARE = 0.25
#: Rows from which a bound is told for the largest of many.
_SAMPLE = 20_000
#: Rows from which the axes are told, of those at hand and of those that come.
_FITTED_ROWS = 8_000
#: Share of dead rows from which on the living ones are moved together.
_DEAD_SHARE = 0.25
#: Fewer dead rows than this are left where they are.
_FEWEST_DEAD = 1_024

#: Blocks, each with the number of its rows that may be read.
_View: TypeAlias = tuple[tuple[Block, int], ...]


class VectorIndex:
    """Rows of length 1 with an id and a group each; an id may have several rows, of which the best counts.

    One thread may write while any number of threads read: a reader sees the rows that were there when it began
    (a row that is removed meanwhile may be missing). Removed rows are skipped at once and their memory is given
    back later.
    """

    def __init__(self, dimension: int, *, exact_limit: int = EXACT_LIMIT, byte_limit: int = BYTE_LIMIT) -> None:
        """An empty index for rows of ``dimension`` numbers.

        Above ``exact_limit`` rows it becomes approximate, above ``byte_limit`` it takes 0.4 times as much for each.
        """
        self.dimension = dimension
        self._exact_limit, self._byte_limit = exact_limit, byte_limit
        self._expected = 0
        self._is_narrow = False
        self._turn: Turn | None = None
        self._view: _View = ()
        self._writing = threading.Lock()

    def __len__(self) -> int:
        return sum(count - block.dead for block, count in self._view)

    @property
    def is_exact(self) -> bool:
        """Whether the numbers are kept as they came."""
        return self._turn is None

    @property
    def bytes_used(self) -> int:
        """Memory of the rows, in bytes."""
        return sum(count * block.row_bytes for block, count in self._view)

    @property
    def ids(self) -> Ids:
        """The id of each living row, in the order in which they came."""
        return _joined_ids([block.ids[:count][block.alive[:count]] for block, count in self._view])

    def expect(self, rows: int) -> None:
        """Say how many rows will come in all, so that they are kept from the first on as so many are."""
        self._expected = rows

    def add(self, ids: ArrayLike, rows: ArrayLike, groups: ArrayLike | None = None) -> None:
        """Put rows in; rows that an id had before stay (remove them first).

        Args:
            ids: An id for each row.
            rows: Shape (n, dimension), any kind of float.
            groups: A whole number for each row, such as its project; 0 where none are given.

        Raises:
            EmbeddingError: the shapes do not fit.
        """
        ids, matrix = np.asarray(ids, dtype=np.int64), np.asarray(rows)
        marks = np.zeros(len(ids), np.int32) if groups is None else np.asarray(groups, dtype=np.int32)
        if matrix.shape != (len(ids), self.dimension) or len(marks) != len(ids):
            raise EmbeddingError(f"vectors of shape {matrix.shape} do not fit {len(ids)} ids of {self.dimension}")
        with self._writing:
            total = max(self._expected, len(self) + len(ids))
            if self._turn is None and total > self._exact_limit:
                self._is_narrow = total > self._byte_limit
                self._quantise(matrix)
            elif not self._is_narrow and total > self._byte_limit and self._turn is not None:
                self._narrow()
            blocks = [block for block, _ in self._view]
            self._append(blocks, ids, marks, matrix)
            self._publish(blocks)

    def remove(self, ids: ArrayLike) -> int:
        """Take all rows of ``ids`` out; returns how many rows there were."""
        wanted = np.unique(np.asarray(ids, dtype=np.int64))
        removed = 0
        with self._writing:
            for block, count in self._view:
                gone = block.find(count, wanted)
                # The count first: whoever sees it looks at the flags.
                block.dead += len(gone)
                block.alive[gone] = False
                removed += len(gone)
            dead = sum(block.dead for block, _ in self._view)
            if dead > max(_FEWEST_DEAD, _DEAD_SHARE * sum(count for _, count in self._view)):
                self._compact()
        return removed

    def top(
        self, query: ArrayLike, k: int, *, groups: ArrayLike | None = None, allowed: ArrayLike | None = None
    ) -> tuple[Ids, Floats]:
        """The best ``k`` ids with their cosines, best first; fewer where there are not so many.

        Args:
            query: Shape (dimension,).
            k: How many ids.
            groups: Only rows of these groups.
            allowed: Only these ids.
        """
        vector = self._checked(query)
        view = self._view
        limit = None if allowed is None else np.asarray(allowed, dtype=np.int64)
        seen = [block.seen(count, groups, limit) for block, count in view]
        total = sum(count for _, count in view)
        shortlist = round(min(max(SHORTLIST_SHARE * total, FEWEST_SHORTLISTED), MOST_SHORTLISTED))
        shortlist = max(shortlist, _SHORTLIST_A_HIT * k)
        if total <= shortlist or not isinstance(view[0][0], QuantisedBlock):
            ids, cosines = _all_cosines(view, seen, vector)
        else:
            ids, cosines = _shortlisted(view, seen, vector, shortlist)
        return _best(ids, cosines, k)

    def scores(self, query: ArrayLike) -> tuple[Ids, Floats]:
        """Id and cosine of every living row, in the order in which they came (0.09 s for a million rows)."""
        view = self._view
        return _all_cosines(view, [block.seen(count, None, None) for block, count in view], self._checked(query))

    def scores_of(self, query: ArrayLike, ids: ArrayLike) -> Floats:
        """The best cosine of each of ``ids``, in their order; NaN where there is no row."""
        wanted, places = np.unique(np.asarray(ids, dtype=np.int64), return_inverse=True)
        vector = self._checked(query)
        best: Floats = np.full(len(wanted), -np.inf, dtype=np.float32)
        for block, count in self._view:
            here = block.find(count, wanted)
            if len(here):
                np.maximum.at(best, np.searchsorted(wanted, block.ids[here]), block.cosines_at(here, vector))
        best[np.isneginf(best)] = np.nan
        return best[places]

    def get(self, ids: ArrayLike) -> tuple[Ids, Floats]:
        """The rows of ``ids`` that there are, each with its id, in the order in which they came."""
        wanted = np.unique(np.asarray(ids, dtype=np.int64))
        found, rows = [], []
        for block, count in self._view:
            places = block.find(count, wanted)
            if len(places):
                found.append(block.ids[places])
                rows.append(block.rows_at(places))
        matrix = np.concatenate(rows) if rows else np.zeros((0, self.dimension), np.float32)
        return _joined_ids(found), matrix

    def _checked(self, query: ArrayLike) -> Floats:
        vector = np.ascontiguousarray(query, dtype=np.float32)
        if vector.shape != (self.dimension,):
            raise EmbeddingError(f"a query of shape {vector.shape} does not fit vectors of {self.dimension} numbers")
        return vector

    def _new_block(self) -> Block:
        if self._turn is None:
            return ExactBlock(self.dimension)
        return QuantisedBlock(self._turn, is_narrow=self._is_narrow)

    def _append(self, blocks: list[Block], ids: Ids, groups: Groups, rows: NDArray[np.floating]) -> None:
        """Put rows behind the last of ``blocks``, with new blocks where it is full."""
        start = 0
        while start < len(ids):
            if not blocks or blocks[-1].count == BLOCK_ROWS:
                blocks.append(self._new_block())
            stop = min(len(ids), start + BLOCK_ROWS - blocks[-1].count)
            blocks[-1].append(ids[start:stop], groups[start:stop], rows[start:stop])
            start = stop

    def _publish(self, blocks: Sequence[Block]) -> None:
        self._view = tuple((block, block.count) for block in blocks)

    def _quantise(self, coming: NDArray[np.floating]) -> None:
        """Keep rows in few bits from now on; the axes suit the rows at hand and those that come."""
        moments = _moments(coming[:: 1 + len(coming) // _FITTED_ROWS])
        for block, count in self._view:
            moments += _moments(block.rows_at(block.living(count)[:: 1 + len(self) // _FITTED_ROWS]))
        self._turn = Turn.fitted_to(moments)
        blocks: list[Block] = []
        for block, count in self._view:
            places = block.living(count)
            self._append(blocks, block.ids[places], block.groups[places], block.rows_at(places))
        self._publish(blocks)

    def _narrow(self) -> None:
        """Turn 8 bits a number into fewer, block by block, so that it takes little memory beside."""
        self._is_narrow = True
        for number, (block, count) in enumerate(self._view):
            fresh, places = self._new_block(), block.living(count)
            fresh.append(block.ids[places], block.groups[places], block.rows_at(places))
            self._view = (*self._view[:number], (fresh, fresh.count), *self._view[number + 1 :])

    def _compact(self) -> None:
        """Move the living rows together, block by block, so that it takes little memory beside."""
        fresh = [self._new_block()]
        waiting = list(self._view)
        while waiting:
            block, count = waiting.pop(0)
            places = block.living(count)
            while len(places):
                room = BLOCK_ROWS - fresh[-1].count
                fresh[-1].take(block, places[:room])
                places = places[room:]
                if len(places):
                    fresh.append(self._new_block())
            self._view = (*((done, done.count) for done in fresh), *waiting)


def rows_from_blobs(blobs: Sequence[bytes], dimension: int) -> NDArray[np.float16]:
    """float16 rows out of ``blobs`` of the database; raises EmbeddingError where one has another length."""
    if any(len(blob) != 2 * dimension for blob in blobs):
        raise EmbeddingError(f"a stored vector has not {dimension} numbers")
    return np.frombuffer(b"".join(blobs), dtype=np.float16).reshape(len(blobs), dimension)


def _all_cosines(view: _View, seen: Sequence[Flags | None], query: Floats) -> tuple[Ids, Floats]:
    ids, cosines = [], []
    for (block, count), flags in zip(view, seen, strict=True):
        every = block.cosines(count, query)
        ids.append(block.ids[:count] if flags is None else block.ids[:count][flags])
        cosines.append(every if flags is None else every[flags])
    return _joined_ids(ids), np.concatenate(cosines) if cosines else np.zeros(0, np.float32)


def _shortlisted(view: _View, seen: Sequence[Flags | None], query: Floats, shortlist: int) -> tuple[Ids, Floats]:
    """Ids and cosines of the ``shortlist`` rows (or all that are seen) of which the first guess says the most."""
    blocks = [(block, count) for block, count in view if isinstance(block, QuantisedBlock)]
    turned = blocks[0][0].turned(query)
    places, guesses = _guessed(blocks, seen, turned)
    if len(guesses) > shortlist:
        nearest = _largest(guesses, shortlist)
        guesses = guesses[nearest]
        places = nearest if places is None else places[nearest]
    elif places is None:
        places = np.arange(len(guesses))
    ids, cosines, start = [], [], 0
    for block, count in blocks:
        here = slice(*np.searchsorted(places, (start, start + count)))
        own = places[here] - start
        ids.append(block.ids[own])
        cosines.append(guesses[here] + block.rest_at(own, turned))
        start += count
    return np.concatenate(ids), np.concatenate(cosines)


def _guessed(
    blocks: Sequence[tuple[QuantisedBlock, int]], seen: Sequence[Flags | None], turned: Floats
) -> tuple[Places | None, Floats]:
    """The guesses for all rows that are seen, and their places counted over all blocks; None where all are seen."""
    if all(flags is None for flags in seen):
        every: Floats = np.empty(sum(count for _, count in blocks), dtype=np.float32)
        start = 0
        for block, count in blocks:
            every[start : start + count] = block.guesses(count, turned)
            start += count
        return None, every
    places, guesses, start = [], [], 0
    for (block, count), flags in zip(blocks, seen, strict=True):
        here = np.arange(count) if flags is None else np.flatnonzero(flags)
        if len(here) < _FEW_SHARE * count:
            guesses.append(block.guesses_at(here, turned))
        else:
            guesses.append(block.guesses(count, turned)[here])
        places.append(here + start)
        start += count
    return np.concatenate(places), np.concatenate(guesses)


def _largest(values: Floats, count: int) -> Places:
    """Places of the ``count`` largest values, ascending. A bound from a sample leaves most out, which is faster."""
    sample = values[:: max(1, len(values) // _SAMPLE)]
    rank = min(len(sample), 2 + round(1.5 * count * len(sample) / len(values)))
    above = np.flatnonzero(values >= np.partition(sample, len(sample) - rank)[len(sample) - rank])
    if len(above) < count:
        above = np.arange(len(values))
    left_out = len(above) - count
    return np.sort(above[np.argpartition(values[above], left_out)[left_out:]]) if left_out else above


def _moments(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """The sum of the outer products of ``rows``."""
    floats = rows.astype(np.float32)
    return (floats.T @ floats).astype(np.float64)


def _best(ids: Ids, cosines: Floats, k: int) -> tuple[Ids, Floats]:
    """The best ``k`` ids, each once with its best cosine; best first, equal ones in the order of the rows."""
    take = min(len(ids), 4 * max(k, 0))
    while take:
        places = np.argpartition(-cosines, take - 1)[:take]
        places = places[np.lexsort((places, -cosines[places]))]
        _, first = np.unique(ids[places], return_index=True)
        if len(first) >= k or take == len(ids):
            chosen = places[np.sort(first)[:k]]
            return ids[chosen], cosines[chosen]
        take = min(len(ids), 4 * take)
    return np.zeros(0, np.int64), np.zeros(0, np.float32)


def _joined_ids(parts: Sequence[Ids]) -> Ids:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
