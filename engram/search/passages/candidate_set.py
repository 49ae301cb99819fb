"""The passages that a search looks at: the candidates, their neighbours, and which of them are read closely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from engram.models.search_rows import PassageRow
from engram.search.episodes.pool import Column

#: What text and vector count in the first guess.
_TEXT, _VECTOR = 0.45, 0.55
#: Share of the first guess that a neighbour, and the one behind it, lends; share of the session's three best.
_NEAR, _FAR, _SESSION = 0.2, 0.1, 0.3

Indexes: TypeAlias = NDArray[np.int64]
#: Row id, session, turn and said of each passage.
Spots: TypeAlias = Sequence[tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class PassagePool:
    """Candidates and their neighbours in the order of their row ids, as columns of the same length."""

    ids: NDArray[np.int64]
    session: NDArray[np.int64]
    turn: NDArray[np.int64]
    said: NDArray[np.int64]
    #: BM25 as a share of the best; 0 where the text did not match.
    text: Column
    #: Cosine to the question; 0 where it has no vector, or there is no model.
    cosine: Column
    #: The first guess.
    base: Column

    def __len__(self) -> int:
        return len(self.ids)

    def beside(self, apart: int, values: Column, places: Indexes | slice = slice(None)) -> Column:
        """For each place the value of the passage so many behind (below 0: before) in its session; 0 for none."""
        wanted = self.ids[places] + apart
        found = np.minimum(np.searchsorted(self.ids, wanted), max(len(self) - 1, 0))
        is_there = (self.ids[found] == wanted) & (self.session[found] == self.session[places])
        return np.where(is_there, values[found], 0.0)

    def best_of(self, groups: NDArray[np.int64], values: Column) -> Column:
        """The best value of the group that each passage belongs to."""
        _, places = np.unique(groups, return_inverse=True)
        best = np.zeros(places.max(initial=-1) + 1)
        np.maximum.at(best, places, values)
        return best[places]

    def three_best_of_session(self, values: Column) -> Column:
        """The mean of the three best values of each passage's session."""
        _, places = np.unique(self.session, return_inverse=True)
        order = np.lexsort((-values, places))
        starts = np.searchsorted(places[order], np.arange(places.max(initial=-1) + 1))
        rank = np.arange(len(order)) - starts[places[order]]
        sums = np.zeros(len(starts))
        np.add.at(sums, places[order][rank < 3], values[order][rank < 3])
        return sums[places] / 3


def build_pool(spots: Spots, bm25: Mapping[int, float], cosines: Mapping[int, float]) -> PassagePool:
    """A pool with the first guess of each passage. ``spots``: row id, session, turn and said, ordered by row id."""
    columns = np.array(spots, dtype=np.int64).reshape(len(spots), 4)
    ids = columns[:, 0].tolist()
    text = _scaled(np.array([bm25.get(one, 0.0) for one in ids]))
    cosine = np.maximum(np.nan_to_num(np.array([cosines.get(one, 0.0) for one in ids])), 0.0)
    base = _TEXT * text + _VECTOR * _scaled(cosine)
    return PassagePool(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], text, cosine, base)


def choose(pool: PassagePool, limit: int, also: frozenset[int] = frozenset(), also_limit: int = 0) -> Indexes:
    """Places of the passages that are worth reading closely: the best guesses, and the best of the ids in ``also``."""
    guess = pool.base + _NEAR * (pool.beside(1, pool.base) + pool.beside(-1, pool.base))
    guess = guess + _FAR * (pool.beside(2, pool.base) + pool.beside(-2, pool.base))
    guess = guess + _SESSION * pool.three_best_of_session(guess)
    order = np.argsort(-guess, kind="stable")
    chosen = order[:limit]
    if also:
        wanted = [place for place in np.argsort(-pool.base, kind="stable") if int(pool.ids[place]) in also]
        chosen = np.unique(np.concatenate([chosen, np.array(wanted[:also_limit], dtype=np.int64)]))
    return np.asarray(chosen[np.argsort(-guess[chosen], kind="stable")], dtype=np.int64)


def _scaled(values: Column) -> Column:
    best = float(values.max(initial=0.0))
    return values / best if best > 0 else np.zeros(len(values))


@dataclass(frozen=True, slots=True)
class Read:
    """What was read closely: the chosen places of a pool, and the texts of those and of their neighbours."""

    pool: PassagePool
    chosen: Indexes
    #: Row id → passage, for the chosen ones and two places around.
    rows: Mapping[int, PassageRow]

    def row(self, place: int) -> PassageRow:
        """The passage at a place of the pool."""
        return self.rows[int(self.pool.ids[place])]

    def neighbours(self, place: int) -> list[PassageRow]:
        """The passages up to two places before and behind, in the same session."""
        own = self.row(place)
        beside = (self.rows.get(own.id + apart) for apart in (-2, -1, 1, 2))
        return [row for row in beside if row is not None and row.session_ref == own.session_ref]
