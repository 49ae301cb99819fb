"""Collect evidence for the memories found for a prompt: from passages, other memories and rare words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engram.models.engine.transaction import Store
from engram.models.sessions.passage_rows import passages_of_evidence
from engram.search.hits import Hit
from engram.search.question import TermCounts
from engram.text.words import stem_forms, topic_stems, topic_words

if TYPE_CHECKING:  # so that a process without vectors does not load numpy
    from engram.search.vectors.loaded_vectors import Floats, VectorCache

#: Mean cosine of a prompt to unrelated memories, and its weight as a prior in small stores, in memories.
UNRELATED_COSINE, UNRELATED_MEMORIES = 0.12, 10
#: The number of passages is clamped to this range, because a word's rarity hardly depends on the size of the store.
MIN_ROWS, MAX_ROWS = 300, 3_000


@dataclass(frozen=True, slots=True)
class Support:
    """The evidence for the memories found for a prompt, apart from their own text."""

    #: Row id of a memory → best cosine of any passage from its evidence entries, or from the turns of these entries.
    by_source: Mapping[int, float] = field(default_factory=dict)
    by_turn: Mapping[int, float] = field(default_factory=dict)
    #: Mean cosine of the prompt to all memories of its project and global ones.
    usual_cosine: float = UNRELATED_COSINE
    #: Stem of a prompt word that a memory contains → its rarity in all passages.
    rarity: Mapping[str, float] = field(default_factory=dict)
    #: Without a model: row id of a turn → score of its best passage, as a share of the best score overall.
    text_by_turn: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Floor:
    """The minimum relevance of a passage for a prompt; a search stops before ranking if no passage can reach it."""

    #: How much closer than ``Support.usual_cosine`` a passage must be, regardless of its words.
    least_meaning: float
    #: Returns whether a passage is relevant enough, given its evidence.
    is_reached: Callable[[Hit, Support], bool]


def text_support(passages: Sequence[Hit]) -> dict[int, float]:
    """Return the score of each turn's best passage, as a share of the best score overall."""
    best = max((hit.score for hit in passages), default=0.0)
    by_turn: dict[int, float] = {}
    for hit in passages:
        if hit.turn_id is not None and best > 0:
            by_turn[hit.turn_id] = max(by_turn.get(hit.turn_id, 0.0), hit.score / best)
    return by_turn


def evidence_cosines(
    store: Store, cache: VectorCache, vector: Floats, hits: Sequence[Hit]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the ``by_source`` and ``by_turn`` mappings of ``Support``."""
    rows = passages_of_evidence(store, [hit.row_id for hit in hits])
    cosines = cache.scores_of(vector, sorted({passage_id for _, passage_id, _ in rows}))
    by_source: dict[int, float] = {}
    by_turn: dict[int, float] = {}
    for memory_id, passage_id, is_source in rows:
        cosine = cosines[passage_id]
        if not math.isnan(cosine):
            by_turn[memory_id] = max(by_turn.get(memory_id, -1.0), cosine)
            if is_source:
                by_source[memory_id] = max(by_source.get(memory_id, -1.0), cosine)
    return by_source, by_turn


def usual_cosine(cache: VectorCache, vector: Floats, project_id: int | None) -> float:
    """Return the mean cosine of a prompt to the rows visible to its project, smoothed towards ``UNRELATED_COSINE``."""
    mean, count = cache.usual_cosine(vector, project_id)
    return (mean * count + UNRELATED_COSINE * UNRELATED_MEMORIES) / (count + UNRELATED_MEMORIES)


def rarity_of_words(store: Store, counts: TermCounts, prompt: str, hits: Sequence[Hit]) -> dict[str, float]:
    """Return the rarity of each prompt word that a memory contains, by its stem."""
    forms = stem_forms(topic_words(prompt))
    known: set[str] = set()
    for hit in hits:
        known |= stems_of(hit)
    shared = {stem: form for stem, form in forms.items() if stem in known}
    count_of, total = counts.count(store, sorted(set(shared.values())))
    return {stem: _rarity(count_of[form], total) for stem, form in shared.items()}


def stems_of(hit: Hit) -> frozenset[str]:
    said = topic_stems(hit.text)
    return said | topic_stems(" ".join(hit.memory.entities)) if hit.memory is not None else said


def _rarity(count: int, total: int) -> float:
    rows = min(max(total, MIN_ROWS), MAX_ROWS)
    share = min(1.0, rows / max(total, 1))
    return math.log((rows + 1) / (max(count * share, 1.0) + 0.5))
