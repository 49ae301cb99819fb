"""Search over notes: their chunks, ranked by the same signs as passages."""

from __future__ import annotations

import numpy as np

from engram.models.fulltext import search_notes
from engram.models.search_rows import NoteRowText, PassageRow, note_rows
from engram.models.turns import EvidencePlace
from engram.search.episodes.abstain import is_far, nearness
from engram.search.hits import Hit
from engram.search.passages.candidate_set import Read, build_pool, choose
from engram.search.passages.excerpt import excerpt
from engram.search.passages.features import signs_of
from engram.search.passages.model import learned_weights
from engram.search.passages.source import Source
from engram.search.question.coverage import Coverage
from engram.search.question.parsed import Asked
from engram.search.question.query import Query
from engram.search.question.terms import informative
from engram.search.vectors.cache import Floats

#: Chunks that text and vectors bring, each.
CANDIDATES = 50
#: A note is meant to be read: it shows more than a passage, in words.
SHOWN_WORDS = 60


def note_hits(source: Source, query: Query, asked: Asked, vector: Floats | None) -> list[Hit]:
    """The best chunks of notes, best first; none where none is near enough."""
    store, index = source.store, source.index
    known, total = source.counts.of(store, asked.terms)
    bm25 = dict(search_notes(store, informative(asked.terms, known, total), CANDIDATES, project_id=query.project_id))
    near = index.search(vector, CANDIDATES, query.project_id) if vector is not None and index is not None else {}
    # Whose a note is may have changed since its vector was read: the rows decide.
    rows = note_rows(store, sorted({*bm25, *near}), query.project_id)
    cosines = {row_id: cosine for row_id, cosine in near.items() if row_id in rows}
    if not rows:
        return []
    read = _as_read(rows, bm25, cosines)
    coverage = Coverage(asked.terms, known, total)
    texts = [row.text for row in rows.values()]
    if is_far(nearness(asked, coverage.unknown, texts, [max(cosines.values(), default=1.0)], source.relevance_floor)):
        return []
    ranked = learned_weights(with_model=bool(cosines)).rank(signs_of(read, asked, coverage))
    hits = []
    for place in np.argsort(-ranked.score, kind="stable")[: query.limit]:
        row = rows[read.row(int(read.chosen[place])).id]
        shown = excerpt(row.text, coverage, SHOWN_WORDS)
        hits.append(
            Hit(
                id=f"{row.source}#{row.start_line}",
                kind="note",
                text=f"{row.heading}\n{shown}".strip(),
                score=float(ranked.score[place]),
                parts=ranked.parts_of(int(place)),
                project=row.project,
                created_at_ms=row.changed_at_ns // 1_000_000,
                evidence=(EvidencePlace("", "", row.path, row.start_line),),
                cosine=cosines.get(row.id),
                row_id=row.id,
            )
        )
    return hits


def _as_read(rows: dict[int, NoteRowText], bm25: dict[int, float], cosines: dict[int, float]) -> Read:
    """Chunks as passages: each stands alone, no session around it."""
    spots = [(row_id, row_id, row_id, row_id) for row_id in sorted(rows)]
    pool = build_pool(spots, bm25, cosines)
    texts = {
        row.id: PassageRow(
            row.id, row.id, row.id, None, "note", row.id, f"{row.heading}\n{row.text}".strip(),
            row.changed_at_ns // 1_000_000, 0, len(row.text), False,
        )
        for row in rows.values()
    }  # fmt: skip
    return Read(pool, choose(pool, len(spots)), texts)
