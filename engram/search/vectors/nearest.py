"""Find the nearest rows of blocks: every cosine, or a shortlist by a cheap estimate, then the cosines of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from engram.search.vectors.codes import Floats, Places
from engram.search.vectors.row_blocks import Block, Flags, Ids, QuantisedBlock

#: Below this share of a block's rows their estimates are computed one by one.
_MIN_DENSE_SHARE = 0.25
#: Sample size that a bound for the largest values is estimated from.
_SAMPLE_ROWS = 20_000

#: Blocks, each with the number of its rows that may be read.
View: TypeAlias = tuple[tuple[Block, int], ...]


def all_cosines(view: View, visible: Sequence[Flags | None], query: Floats) -> tuple[Ids, Floats]:
    """Return id and cosine of every visible row. ``visible``: flags for each block, None for all its rows."""
    ids, cosines = [], []
    for (block, count), flags in zip(view, visible, strict=True):
        block_cosines = block.cosines(count, query)
        ids.append(block.ids[:count] if flags is None else block.ids[:count][flags])
        cosines.append(block_cosines if flags is None else block_cosines[flags])
    return joined_ids(ids), np.concatenate(cosines) if cosines else np.zeros(0, np.float32)


def shortlisted_cosines(
    view: View, visible: Sequence[Flags | None], query: Floats, shortlist: int
) -> tuple[Ids, Floats]:
    """Return id and cosine of the ``shortlist`` visible rows of quantised blocks with the largest estimates."""
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
    """Return the visible rows' places, counted over all blocks (None for all rows), and their estimates."""
    if all(flags is None for flags in visible):
        estimates: Floats = np.empty(sum(count for _, count in blocks), dtype=np.float32)
        start = 0
        for block, count in blocks:
            estimates[start : start + count] = block.estimates(count, rotated)
            start += count
        return None, estimates
    places, parts, start = [], [], 0
    for (block, count), flags in zip(blocks, visible, strict=True):
        own_places = np.arange(count) if flags is None else np.flatnonzero(flags)
        if len(own_places) < _MIN_DENSE_SHARE * count:
            parts.append(block.estimates_at(own_places, rotated))
        else:
            parts.append(block.estimates(count, rotated)[own_places])
        places.append(own_places + start)
        start += count
    return np.concatenate(places), np.concatenate(parts)


def _largest(values: Floats, count: int) -> Places:
    """Return the places of the ``count`` largest values, ascending.

    A bound from a sample excludes most values first, which is faster than partitioning all of them.
    """
    sample = values[:: max(1, len(values) // _SAMPLE_ROWS)]
    rank = min(len(sample), 2 + round(1.5 * count * len(sample) / len(values)))
    above = np.flatnonzero(values >= np.partition(sample, len(sample) - rank)[len(sample) - rank])
    if len(above) < count:
        above = np.arange(len(values))
    surplus = len(above) - count
    return np.sort(above[np.argpartition(values[above], surplus)[surplus:]]) if surplus else above


def best_per_id(ids: Ids, cosines: Floats, limit: int) -> tuple[Ids, Floats]:
    """Return the best ``limit`` ids, each once with its best cosine; best first, equal ones in the order of rows."""
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
    """Return ids of several blocks as a single array."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
