"""Let memories of branches that were not merged sink where the asker works on another branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engram.search.hits import Hit

#: Share of its score that a memory loses.
BRANCH_DEDUCTION = 0.3


def sink_other_branches(hits: Sequence[Hit], branches: Mapping[int, str], asked_on: str) -> list[Hit]:
    """Return the hits with the branches that were not merged, the best first.

    Args:
        hits: memories, the best first.
        branches: row id of a memory → its branch, if that was not merged.
        asked_on: the branch that the asker works on, where its memories hold.
    """
    marked = [_sink(hit, branch) if (branch := branches.get(hit.row_id, "")) != asked_on else hit for hit in hits]
    return sorted(marked, key=lambda hit: -hit.score)


def _sink(hit: Hit, branch: str) -> Hit:
    if not branch:
        return hit
    deduction = -BRANCH_DEDUCTION * abs(hit.score)
    return replace(hit, branch=branch, score=hit.score + deduction, parts={**hit.parts, "branch": deduction})
