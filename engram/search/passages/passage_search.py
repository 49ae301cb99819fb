"""Search passages of turns: retrieve candidates, extract features, rank them, group them into hits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from engram.models.engine.transaction import Store
from engram.models.projects.notes import HEADING_SEPARATOR
from engram.models.projects.projects import former_names
from engram.models.search.fulltext import NoteRowText, note_rows, passages_with_phrase, search_notes
from engram.models.sessions.passage_rows import (
    EvidencePlace,
    PassagePlace,
    PassageRow,
    passage_places,
    passage_rows,
    texts_of_blocks,
)
from engram.search.abstain import (
    count_likely,
    is_above_floor,
    is_near_by_chance,
    is_unsupported,
    query_support,
    shares_words,
)
from engram.search.hits import Hit, Part, role_of_parts, text_of_parts
from engram.search.passages.candidate_set import (
    CandidateSet,
    SearchIndex,
    Shortlist,
    VectorWait,
    build_candidate_set,
    retrieve_passages,
    select_shortlist,
)
from engram.search.passages.features import SCORE_SCALE, chat_speakers, extract_features, load_ranking_model
from engram.search.question import Coverage, ParsedQuery, Query, select_terms
from engram.search.quoted_phrases import find_phrases, text_around
from engram.search.ranking import Column, Ranking
from engram.search.vectors.loaded_vectors import Floats
from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import sentence_spans

# -- Choose the sentences of a passage to show. Pure.

#: Maximum number of words in an excerpt, unless a single sentence is longer.
MAX_EXCERPT_WORDS = 40
#: A text with fewer characters than this is extended by its neighbours, because "Done." means nothing on its own.
MIN_CHARS = 80


def excerpt(text: str, coverage: Coverage, max_words: int = MAX_EXCERPT_WORDS) -> str:
    """Return the run of sentences, of at most ``max_words`` words, that covers most of the question.

    The first run wins a tie. A single longer sentence is not cut.
    """
    if len(text.split()) <= max_words:
        return text
    spans = sentence_spans(text)
    sizes = [len(text[start:stop].split()) for start, stop in spans]
    shares = [coverage.share(stems) for stems in coverage.stems_in_each([text[start:stop] for start, stop in spans])]
    best_share, best_run = -1.0, (0, 0)
    for first in range(len(spans)):
        size, share = 0, 0.0
        for last in range(first, len(spans)):
            if size and size + sizes[last] > max_words:
                break
            size += sizes[last]
            share += shares[last]
            if share > best_share + 1e-9:
                best_share, best_run = share, (first, last)
    first, last = _extend_run(spans, *best_run)
    return text[spans[first][0] : spans[last][1]]


def _extend_run(spans: list[tuple[int, int]], first: int, last: int) -> tuple[int, int]:
    """Extend a run that is too short, first by the sentences that follow it, then by those that precede it."""
    while spans[last][1] - spans[first][0] < MIN_CHARS and (first > 0 or last + 1 < len(spans)):
        if last + 1 < len(spans):
            last += 1
        else:
            first -= 1
    return first, last


def extend_short(shown: str, before: str, after: str) -> str:
    """Extend a text that is too short by sentences from the texts before and after it."""
    for neighbour, is_before in ((before, True), (after, False)):
        spans = sentence_spans(neighbour)
        while spans and len(shown) < MIN_CHARS:
            start, stop = spans.pop() if is_before else spans.pop(0)
            sentence = neighbour[start:stop]
            shown = f"{sentence}\n{shown}" if is_before else f"{shown}\n{sentence}"
    return shown


# -- Group the ranked passages of a turn into one hit, such as a prompt with its reply; at most a few entries. Pure.

#: Maximum number of entries in a hit, and of words in all of them together.
MAX_ENTRIES, MAX_WORDS = 3, 100
#: An entry joins a better one of its turn if it is at least a seventh (1 / e²) as likely to answer the question.
_MAX_SCORE_GAP = 2.0 * SCORE_SCALE
#: A passage that scores lower than the last hit by this much can neither join a hit nor become one.
_CUTOFF_GAP = _MAX_SCORE_GAP + SCORE_SCALE * math.log(MAX_ENTRIES)


@dataclass(slots=True)
class HitGroup:
    """The best passages of up to three entries of one turn."""

    #: Indexes in the shortlist, best first.
    indexes: list[int]
    #: Returns the text to show for an index, and its number of words.
    text_of: Callable[[int], tuple[str, int]]
    #: Score of the best passage.
    best_score: float
    #: Combined likelihood of all passages, on the scale of a score.
    score: float

    @property
    def texts(self) -> list[str]:
        return [self.text_of(index)[0] for index in self.indexes]

    def accepts(self, index: int, score: float) -> bool:
        """Return whether another entry of the turn fits in: it is nearly as good, and within the word limit."""
        if len(self.indexes) >= MAX_ENTRIES or self.best_score - score >= _MAX_SCORE_GAP:
            return False
        return sum(self.text_of(shown)[1] for shown in (*self.indexes, index)) <= MAX_WORDS

    def add(self, index: int, score: float) -> None:
        self.indexes.append(index)
        self.score = float(SCORE_SCALE * np.logaddexp(self.score / SCORE_SCALE, score / SCORE_SCALE))


def group_hits(shortlist: Shortlist, score: Column, limit: int, shown_text: Callable[[int], str]) -> list[HitGroup]:
    """Return the best groups, best first. Each entry appears in at most one group, represented by its best passage.

    Args:
        score: the score of each passage in the shortlist; minus infinity leaves it out.
        shown_text: returns the text to show for an index in the shortlist; called only when needed.
    """
    groups: list[HitGroup] = []
    group_of_turn: dict[int, HitGroup] = {}
    seen_blocks: set[int] = set()
    scores: list[float] = score.tolist()

    @cache
    def text_of(index: int) -> tuple[str, int]:
        text = shown_text(index)
        return text, len(text.split())

    for index in np.argsort(-score, kind="stable").tolist():
        if scores[index] == -math.inf:
            break
        if len(groups) >= limit and groups[limit - 1].best_score - scores[index] >= _CUTOFF_GAP:
            break
        place = int(shortlist.places[index])
        block, turn = int(shortlist.candidates.block[place]), int(shortlist.candidates.turn[place])
        if block in seen_blocks:
            continue
        seen_blocks.add(block)
        own_score = scores[index]
        group = group_of_turn.get(turn)
        if group is not None and group.accepts(index, own_score):
            group.add(index, own_score)
        else:
            group_of_turn[turn] = HitGroup([index], text_of, best_score=own_score, score=own_score)
            groups.append(group_of_turn[turn])
    return sorted(groups, key=lambda group: -group.score)[:limit]


#: Maximum number of passages in which a phrase is searched for.
MAX_PHRASE_PASSAGES = 1000
#: Name of the score part for passages that are positioned by words alone while they have no vector yet.
WAITING = "waiting"


def find_passages(
    index: SearchIndex,
    query: Query,
    parsed: ParsedQuery,
    wait_for_vector: VectorWait,
    *,
    without: Collection[str] = (),
    is_worth: Callable[[CandidateSet], bool] | None = None,
) -> list[Hit]:
    """Return the best passages, best first, grouped by turn; empty if none is likely to answer the question.

    ``without`` names feature groups to leave out; weak matches are then kept, since all scores are lower. If
    ``is_worth`` returns False, the search ends before the candidates are read and ranked.
    """
    if query.phrases:
        return _find_phrases(index, query, parsed, wait_for_vector)
    shortlist, coverage = retrieve_passages(index, query, parsed, wait_for_vector, is_worth=is_worth)
    if not len(shortlist):
        return []
    ranking = rank_passages(shortlist, parsed, coverage, without=without)
    score = np.where(_has_match(shortlist), ranking.score, -np.inf)
    groups = best_groups(shortlist, coverage, score, query.limit)
    if query.thorough or without:
        return _build_hits(index.store, shortlist, ranking, groups)
    support = None
    if shortlist.candidates.known_cosines.any() and index.relevance_floor:
        support = passage_support(shortlist, parsed, coverage, index.relevance_floor)
    likely, doubtful = _select_likely(shortlist, parsed, coverage, groups, index.relevance_floor, support)
    hits = _build_hits(index.store, shortlist, ranking, likely, support=support)
    return hits + _build_hits(index.store, shortlist, ranking, doubtful, support=support, is_doubtful=True)


def _find_phrases(index: SearchIndex, query: Query, parsed: ParsedQuery, wait_for_vector: VectorWait) -> list[Hit]:
    """Return the texts that contain every phrase, best first; each is represented by the passage in which the first
    phrase begins.
    """
    spans = _phrase_spans(index.store, query)
    if not spans:
        return []
    shortlist, coverage = retrieve_passages(index, query, parsed, wait_for_vector, among=list(spans))
    ranking = rank_passages(shortlist, parsed, coverage)
    shown = {row_id: text_around(text, found) for row_id, (text, found) in spans.items()}
    groups = group_hits(shortlist, ranking.score, query.limit, lambda index: shown[shortlist.ranked_row(index).id])
    return _build_hits(index.store, shortlist, ranking, groups)


def _phrase_spans(store: Store, query: Query) -> dict[int, tuple[str, list[tuple[int, int]]]]:
    """Return row id of a passage → its whole text block, and the spans of the phrases in that block."""
    first = query.phrases[0]
    ids = passages_with_phrase(store, first, MAX_PHRASE_PASSAGES, project_id=query.project_id)
    rows = passage_rows(store, ids)
    texts = texts_of_blocks(store, sorted({row.said_id for row in rows.values()}))
    found: dict[int, tuple[str, list[tuple[int, int]]]] = {}
    for row in rows.values():
        text = texts.get(row.said_id, "")
        spans = find_phrases(text, query.phrases)
        if spans and row.start <= spans[0][0] < row.start + len(row.text):
            found[row.id] = (text, spans)
    return found


def _select_likely(
    shortlist: Shortlist,
    parsed: ParsedQuery,
    coverage: Coverage,
    groups: Sequence[HitGroup],
    relevance_floor: float,
    support: float | None,
) -> tuple[list[HitGroup], list[HitGroup]]:
    """Return the groups that are likely to answer, and those to show as doubtful.

    Without a model, ``support`` is None, and all groups are likely if at least one matches by more than chance. A
    passage without a vector is likely if it shares enough words with the question, however far from it the passages
    with vectors are. Doubtful groups are returned only if they are above the floor.
    """
    groups = [
        group
        for group in groups
        if not is_near_by_chance(shortlist.ranked_row(group.indexes[0]).text, parsed, coverage)
    ]
    if support is None:
        is_any = parsed.date_range is not None or any(
            _is_above_floor(shortlist, group, parsed, coverage, relevance_floor) for group in groups
        )
        return list(groups) if is_any else [], []
    is_chat = bool(chat_speakers([row.text for row in shortlist.rows.values()]))
    count = count_likely([group.score for group in groups], support, is_chat=is_chat)
    found_by_words = [_is_found_by_words(shortlist, group, parsed, coverage) for group in groups]
    shown = [place for place in range(len(groups)) if place < count or found_by_words[place]]
    is_likely = [found_by_words[place] or not is_unsupported(support) for place in shown]
    return (
        [groups[place] for place, likely in zip(shown, is_likely, strict=True) if likely],
        [
            groups[place]
            for place, likely in zip(shown, is_likely, strict=True)
            if not likely and _is_above_floor(shortlist, groups[place], parsed, coverage, relevance_floor)
        ],
    )


def _is_above_floor(
    shortlist: Shortlist, group: HitGroup, parsed: ParsedQuery, coverage: Coverage, relevance_floor: float
) -> bool:
    best = group.indexes[0]
    own, place = shortlist.ranked_row(best), int(shortlist.places[best])
    nearby = [row.text for row in shortlist.neighbours(place) if abs(row.id - own.id) == 1]
    return is_above_floor(
        "\n".join(group.texts),
        float(shortlist.candidates.cosine[place]),
        parsed,
        coverage,
        relevance_floor,
        nearby="\n".join([own.text, *nearby]),
    )


def _is_found_by_words(shortlist: Shortlist, group: HitGroup, parsed: ParsedQuery, coverage: Coverage) -> bool:
    """Return True if the best passage of a group has no vector yet but shares enough words with the question."""
    best = group.indexes[0]
    if not shortlist.candidates.is_unknown[shortlist.places[best]]:
        return False
    return shares_words(shortlist.ranked_row(best).text.lower(), parsed, coverage)


def passage_support(shortlist: Shortlist, parsed: ParsedQuery, coverage: Coverage, relevance_floor: float) -> float:
    """Return how well the passages support a question, as defined by ``query_support``.

    While some passages have no vector, only the best cosine counts, since the next best ones may be missing.
    """
    candidates = shortlist.candidates
    cosines = candidates.known_cosines[candidates.known_cosines > 0].tolist()
    if candidates.is_unknown.any():
        cosines = [max(cosines, default=0.0)]
    texts = (row.text for row in shortlist.rows.values())
    return query_support(parsed, coverage.unknown_terms, texts, cosines, relevance_floor)


def rank_passages(
    shortlist: Shortlist, parsed: ParsedQuery, coverage: Coverage, *, without: Collection[str] = ()
) -> Ranking:
    """Score the shortlist.

    If no cosine is known, the weights for text alone are used. While some passages have no vector, those passages keep
    the positions that text alone gives them, and the others take the remaining positions in the order of the full
    weights. Therefore no passage ranks lower because its vector is missing.
    """
    candidates = shortlist.candidates
    model = load_ranking_model(with_vectors=bool(candidates.known_cosines.any()))
    ranking = model.rank(extract_features(shortlist, parsed, coverage), without=without)
    is_unknown = candidates.is_unknown[shortlist.places]
    if not is_unknown.any() or not candidates.known_cosines.any():
        return ranking
    words = replace(shortlist, candidates=candidates.by_words())
    by_words = load_ranking_model(with_vectors=False).rank(extract_features(words, parsed, coverage), without=without)
    score = _keep_places(ranking.score, by_words.score, is_unknown)
    return Ranking(score, {**ranking.parts, WAITING: score - ranking.score})


def _keep_places(score: Column, score_by_words: Column, is_unknown: NDArray[np.bool_]) -> Column:
    """Reassign the scores so that passages without a vector get the positions that words alone give them."""
    by_words = np.argsort(-score_by_words, kind="stable")
    order = by_words.copy()
    best = np.argsort(-score, kind="stable")
    order[~is_unknown[by_words]] = best[~is_unknown[best]]
    placed = np.empty(len(score))
    placed[order] = score[best]
    return placed


def _has_match(shortlist: Shortlist) -> NDArray[np.bool_]:
    """Return, for each passage, whether it, a neighbour or its turn matches by text or vector."""
    candidates = shortlist.candidates
    prerank = candidates.prerank_score
    neighbours = np.maximum(candidates.neighbour_values(1, prerank), candidates.neighbour_values(-1, prerank))
    best = np.maximum(np.maximum(prerank, neighbours), candidates.best_in_group(candidates.turn, prerank))
    return np.asarray(best[shortlist.places] > 0, dtype=np.bool_)


def best_groups(shortlist: Shortlist, coverage: Coverage, score: Column, limit: int) -> list[HitGroup]:
    """Return the groups to show, best first; a score of minus infinity leaves a passage out."""
    return group_hits(
        shortlist, score, limit, lambda index: shown_text(shortlist, shortlist.ranked_row(index), coverage)
    )


def shown_text(shortlist: Shortlist, row: PassageRow, coverage: Coverage) -> str:
    """Return the best sentences of a passage; a short excerpt is extended by its neighbours in the same entry."""
    before, after = shortlist.rows.get(row.id - 1), shortlist.rows.get(row.id + 1)
    return extend_short(
        excerpt(row.text, coverage),
        before.text if before is not None and before.said_id == row.said_id else "",
        after.text if after is not None and after.said_id == row.said_id else "",
    )


def _build_hits(
    store: Store,
    shortlist: Shortlist,
    ranking: Ranking,
    groups: list[HitGroup],
    *,
    support: float | None = None,
    is_doubtful: bool = False,
) -> list[Hit]:
    ids = [shortlist.ranked_row(index).id for group in groups for index in group.indexes]
    places = passage_places(store, ids) if ids else {}
    hits = (_build_hit(shortlist, ranking, group, places, support, is_doubtful) for group in groups)
    return [hit for hit in hits if hit is not None]


def _build_hit(
    shortlist: Shortlist,
    ranking: Ranking,
    group: HitGroup,
    places: Mapping[int, PassagePlace],
    support: float | None,
    is_doubtful: bool,
) -> Hit | None:
    """Return the hit of a group: its entries in transcript order, identified by the best one.

    Return None if the passage has been deleted in the meantime.
    """
    rows = [shortlist.ranked_row(index) for index in group.indexes]
    best_index, best_row = group.indexes[0], rows[0]
    best_place = places.get(best_row.id)
    if best_place is None:
        return None
    in_order = sorted(zip(rows, group.texts, strict=True), key=lambda entry: entry[0].id)
    shown = tuple(Part(places[row.id].place.uuid if row.id in places else "", row.role, text) for row, text in in_order)
    cosine = float(shortlist.candidates.cosine[shortlist.places[best_index]])
    parts = ranking.parts_of(best_index)
    if len(rows) > 1:
        parts["turn"] = round(group.score - group.best_score, 4)
    return Hit(
        id=best_place.quotation_id,
        kind="turn",
        text=text_of_parts(shown),
        score=group.score,
        parts=parts,
        project=best_place.project,
        created_at_ms=best_row.at_ms,
        evidence=tuple(places[row.id].place for row in rows if row.id in places),
        session_id=best_place.place.session_id,
        role=role_of_parts(shown),
        turn_id=best_row.turn_id,
        row_id=best_row.id,
        cwd=best_place.cwd,
        parts_of_turn=shown,
        cosine=None if math.isnan(cosine) else cosine or None,
        support=support,
        is_doubtful=is_doubtful,
    )


# -- Search chunks of notes, ranked by the same features as passages.

#: Maximum number of candidates from the text index, and from the vectors.
MAX_CANDIDATES = 50
#: Maximum number of chunks in which a phrase is searched for.
MAX_PHRASE_NOTES = 200
#: Maximum number of words in a hit; more than for a passage, since a note is written to be read.
MAX_NOTE_WORDS = 60


def find_notes(index: SearchIndex, query: Query, parsed: ParsedQuery, vector: Floats | None) -> list[Hit]:
    """Return the best chunks of notes, best first; empty if the notes don't support the question.

    Chance matches are left out. If the query has phrases, only chunks with all of them are returned.
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
    # A note's project may have changed since its vector was loaded, so filter by the stored rows.
    rows = readable_notes(store, sorted(nearest if query.phrases else {*bm25, *nearest}), query.project_id)
    spans = {row_id: find_phrases(row.text, query.phrases) for row_id, row in rows.items()} if query.phrases else {}
    rows = {row_id: row for row_id, row in rows.items() if _says_something(row.text)}
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
                created_at_ms=row.at_ms,
                evidence=(EvidencePlace(session_id="", uuid="", path=row.path, line=row.start_line),),
                row_id=row.id,
                cosine=None if math.isnan(cosine) else cosine,
            )
        )
    return hits


#: A Markdown comment with the white space before it; and, for text that contains code, only a comment that Engram
#: writes.
_COMMENT = lazy_regex(r"[ \t]*<!--.*?-->", re.DOTALL)
_OWN_COMMENT = lazy_regex(r"[ \t]*<!-- (?:ep_[0-9a-f]{12}|session \S+|saved \S+|found [a-z ]+) -->")
#: A heading that names a project: by its name, or in MEMORY.md by the month and its name.
_PROJECT_IN_HEADING = lazy_regex(r"(\d{4}-\d\d, )?(.+)")


def readable_notes(store: Store, ids: Sequence[int], project_id: int | None = None) -> dict[int, NoteRowText]:
    """Return row id → chunk of a note as people read it, without comments and with current project names in the
    heading.

    If a project is given, return only chunks that it may see.
    """
    rows = note_rows(store, ids, project_id)
    former = former_names(store) if rows else {}
    return {row_id: _as_read(row, former) for row_id, row in rows.items()}


def _as_read(row: NoteRowText, former: Mapping[str, str]) -> NoteRowText:
    parts = [_COMMENT.sub("", part).strip() for part in row.heading.split(HEADING_SEPARATOR)]
    for place, part in enumerate(parts):
        month, name = found.groups("") if (found := _PROJECT_IN_HEADING.fullmatch(part)) else ("", part)
        if name in former and (month or former[name] == row.project):
            parts[place] = month + former[name]
    comment = _OWN_COMMENT if "```" in row.text or "~~~" in row.text else _COMMENT
    return replace(row, heading=HEADING_SEPARATOR.join(filter(None, parts)), text=comment.sub("", row.text).strip())


def _says_something(text: str) -> bool:
    """Return False for a chunk that consists only of headings."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _with_first_phrase(query: Query, store: Store) -> list[int]:
    """Return the row ids of chunks that may contain the first phrase; the caller must check the texts."""
    first = query.phrases[0]
    return [row_id for row_id, _ in search_notes(store, [first], MAX_PHRASE_NOTES, project_id=query.project_id)]


def _as_shortlist(rows: dict[int, NoteRowText], bm25: dict[int, float], cosines: dict[int, float]) -> Shortlist:
    """Return chunks as passages, each in its own session, turn and entry."""
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
            at_ms=row.at_ms,
            start=0,
            said_chars=len(row.text),
            is_closing=False,
        )
        for row in rows.values()
    }
    return Shortlist(candidates, select_shortlist(candidates, len(keys)), passages)
