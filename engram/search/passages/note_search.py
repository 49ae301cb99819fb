"""Search chunks of notes: ranked by the same features as passages."""

from __future__ import annotations

import math

import numpy as np

from engram.models.evidence_places import EvidencePlace
from engram.models.fulltext import search_notes
from engram.models.passage_rows import PassageRow
from engram.models.search_rows import NoteRowText, note_rows
from engram.models.store import Store
from engram.search.episodes.abstain import is_above_floor, is_unsupported, query_support, shares_words
from engram.search.hits import Hit
from engram.search.passages.candidate_set import Shortlist, build_candidate_set, select_shortlist
from engram.search.passages.excerpt import excerpt
from engram.search.passages.retrieval import SearchIndex
from engram.search.passages.search import rank_passages
from engram.search.question.coverage import Coverage
from engram.search.question.parsed import ParsedQuery
from engram.search.question.query import Query
from engram.search.question.quoted import find_phrases, text_around
from engram.search.question.terms import select_terms
from engram.search.vectors.cache import Floats

#: Maximum number of candidates from the text index, and from the vectors.
MAX_CANDIDATES = 50
#: Maximum number of chunks that are compared with a phrase.
MAX_PHRASE_NOTES = 200
#: Maximum number of words that a hit shows: more than of a passage, since a note is written to be read.
MAX_NOTE_WORDS = 60


def find_notes(index: SearchIndex, query: Query, parsed: ParsedQuery, vector: Floats | None) -> list[Hit]:
    """Return the best chunks of notes, best first; none if the notes do not support the question, none by chance.

    With phrases it is the chunks that have all of them.
    """
    store, vectors = index.store, index.vectors
    counts, total = index.term_counts.count(store, parsed.terms)
    terms = select_terms(parsed.terms, counts, total)
    bm25 = dict(search_notes(store, terms, MAX_CANDIDATES, project_id=query.project_id))
    nearest: dict[int, float] = {}
    if query.phrases:
        nearest = dict.fromkeys(_with_first_phrase(query, store), 1.0)
    elif vector is not None and vectors is not None:
        nearest = vectors.search(vector, MAX_CANDIDATES, query.project_id)
    # The project of a note may have changed since its vector was loaded: the rows decide.
    rows = note_rows(store, sorted(nearest if query.phrases else {*bm25, *nearest}), query.project_id)
    spans = {row_id: find_phrases(row.text, query.phrases) for row_id, row in rows.items()} if query.phrases else {}
    rows = {row_id: row for row_id, row in rows.items() if spans.get(row_id) or not query.phrases}
    if not rows:
        return []
    cosines: dict[int, float] = {}
    if vector is not None and vectors is not None:
        cosines = vectors.scores_of(vector, list(rows))
    coverage = Coverage(parsed.terms, counts, total)
    texts = [row.text for row in rows.values()]
    best_cosine = max((cosine for cosine in cosines.values() if not math.isnan(cosine)), default=1.0)
    support = query_support(parsed, coverage.unknown_terms, texts, [best_cosine], index.relevance_floor)
    shortlist = _as_shortlist(rows, bm25, cosines)
    ranking = rank_passages(shortlist, parsed, coverage)
    hits: list[Hit] = []
    for place in np.argsort(-ranking.score, kind="stable"):
        row = rows[shortlist.ranked_row(int(place)).id]
        cosine = cosines.get(row.id, math.nan)
        is_close = is_above_floor(f"{row.heading}\n{row.text}", cosine, parsed, coverage, index.relevance_floor)
        is_found_by_words = math.isnan(cosine) and shares_words(row.text.lower(), parsed, coverage)
        is_found_by_words = is_found_by_words or row.id in spans
        is_shown = is_found_by_words or (is_close and not is_unsupported(support))
        if len(hits) == query.limit or not is_shown:
            continue
        is_phrase = row.id in spans
        shown = text_around(row.text, spans[row.id]) if is_phrase else excerpt(row.text, coverage, MAX_NOTE_WORDS)
        hits.append(
            Hit(
                id=f"{row.source}#{row.start_line}",
                kind="note",
                text=f"{row.heading}\n{shown}".strip(),
                score=float(ranking.score[place]),
                parts=ranking.parts_of(int(place)),
                project=row.project,
                created_at_ms=row.changed_at_ns // 1_000_000,
                evidence=(EvidencePlace(session_id="", uuid="", path=row.path, line=row.start_line),),
                row_id=row.id,
                cosine=None if math.isnan(cosine) else cosine,
            )
        )
    return hits


def _with_first_phrase(query: Query, store: Store) -> list[int]:
    """Return the row ids of chunks that may have the first phrase; the texts decide."""
    first = query.phrases[0]
    return [row_id for row_id, _ in search_notes(store, [first], MAX_PHRASE_NOTES, project_id=query.project_id)]


def _as_shortlist(rows: dict[int, NoteRowText], bm25: dict[int, float], cosines: dict[int, float]) -> Shortlist:
    """Return chunks as passages, each of a session, a turn and an entry of its own."""
    keys = [(row_id, row_id, row_id, row_id) for row_id in sorted(rows)]
    candidates = build_candidate_set(keys, bm25, cosines)
    passages = {
        row.id: PassageRow(
            id=row.id,
            turn_id=row.id,
            session_ref=row.id,
            project_id=None,
            role="note",
            said_id=row.id,
            text=f"{row.heading}\n{row.text}".strip(),
            at_ms=row.changed_at_ns // 1_000_000,
            start=0,
            said_chars=len(row.text),
            is_closing=False,
        )
        for row in rows.values()
    }
    return Shortlist(candidates, select_shortlist(candidates, len(keys)), passages)
