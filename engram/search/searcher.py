"""The search service: rank the memories or passages of one store for a question or a prompt; where hits are from."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from engram.embedding.embedder import Embedder
from engram.errors import EmbeddingError
from engram.models.engine.transaction import Reader, Store
from engram.models.memories.branches import open_branches
from engram.models.memories.judgements import usefulness_of
from engram.models.memories.memory_records import evidence_by_row, memories_by_row
from engram.models.projects.projects import project_by_id
from engram.models.search.fulltext import MemoryRow, Term, has_all_words, search_memories, search_passages, search_rows
from engram.models.search.vector_rows import vectors_of
from engram.models.sessions.failures_and_commits import last_commits_of, pull_requests_of
from engram.models.sessions.passage_rows import EvidencePlace, passage_rows, places_of, texts_of_blocks
from engram.models.sessions.sessions import SessionRow, session_titles, sessions_of
from engram.search.abstain import MIN_WORDS_SHARE, is_far, is_unanswered, is_unsupported, select_relevant
from engram.search.hits import Hit, Origin, PublicHit, sink_other_branches
from engram.search.passages.candidate_set import CandidateSet, SearchIndex, VectorWait
from engram.search.passages.passage_search import find_notes, find_passages
from engram.search.question import Coverage, ParsedQuery, Query, TermCounts, parse_query, select_terms
from engram.search.quoted_phrases import only_name, phrases_of
from engram.search.ranking import MemoryCandidates, Ranking, best_places, build_candidates, rank
from engram.search.support import Floor, Support, evidence_cosines, rarity_of_words, text_support, usual_cosine
from engram.search.vectors.loaded_vectors import Floats, VectorCache
from engram.settings import Settings
from engram.text.words import QUESTION_STOP_WORDS, is_unspaced, question_words_of, terms_of, topic_words
from engram.transcripts.agents import PullRequest
from engram.transcripts.project import is_excluded
from engram.trust.display import one_line

logger = logging.getLogger(__name__)

# -- Embed questions.

#: Maximum number of cached vectors.
_MAX_CACHED = 16
#: Number of threads that embed questions while the text index is searched.
_THREADS = 2


class QueryEmbedder:
    """Embeds questions. Thread-safe. Without an embedder, or if it fails, the vector is None."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._vectors: dict[str, Floats] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="embed") if embedder is not None else None

    def embed(self, text: str) -> Floats | None:
        """Return the vector of a question, from the cache if possible: a prompt is usually embedded more than once."""
        if self._embedder is None or not text.strip():
            return None
        with self._lock:
            cached = self._vectors.get(text)
        if cached is not None:
            return cached
        try:
            vector: Floats = self._embedder.embed_query(text)
        except EmbeddingError as error:
            logger.warning("action=embed_question error=%s", error)
            return None
        with self._lock:
            self._vectors[text] = vector
            while len(self._vectors) > _MAX_CACHED:
                del self._vectors[next(iter(self._vectors))]
        return vector

    def start(self, text: str) -> VectorWait:
        """Start embedding a question in another thread; call the returned function to wait for the vector.

        Both the model and SQLite release the GIL, so text can be searched in the meantime.
        """
        with self._lock:
            is_cached = text in self._vectors
        if is_cached or self._pool is None:
            return lambda: self.embed(text)
        return self._pool.submit(self.embed, text).result


# -- The search service: rank the memories or passages of one store for a question or a prompt.

__all__ = ["Hit", "Query", "Searcher", "public_hits", "with_places"]

#: Maximum number of memories from the text index, and from the vectors.
MAX_CANDIDATES = 100
#: Number of passages to search for as support of memories without a vector.
SUPPORTING_PASSAGES = 40
#: A text with this share of a question's words contains them all; slightly below 1 because of rounding.
MIN_SAID_SHARE = 0.999
#: Introductions to the closest texts if none contains the phrase, all of the words together, some of them, or any of
#: them.
_CLOSEST = "; closest:"
NOBODY_SAID_PHRASE = f"Nobody said this{_CLOSEST}"
NOBODY_SAID_WORDS = f"Nobody said all of these words together{_CLOSEST}"
NOBODY_SAID_SOME = f"Nobody said {{}}{_CLOSEST}"
NOBODY_SAID_ANY = f"Nobody said any of these words{_CLOSEST}"
#: Maximum length at which such a word is shown, in characters.
MAX_WORD_CHARACTERS = 40
#: Maximum number of words of a question that are looked up one by one.
MAX_SINGLE_WORDS = 8
#: Number of texts to compare by how many of the words they contain if none contains all.
MAX_CLOSEST = 40
#: Maximum number of memories with which a new one is compared.
MAX_SIMILAR = 40


class Searcher:
    """Answers queries over one store. Thread-safe.

    Without an embedder, it searches only by text.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
        vectors: Mapping[str, VectorCache] | None = None,
    ) -> None:
        """Create a searcher over ``store``.

        Args:
            settings: ``exclude`` hides folders.
            embedder: the model; None to search only by text.
            vectors: the cache for each kind of owner: p (passage), e (memory), n (note). If None, empty caches are
                created, which ``refresh`` fills.
        """
        self._store = store
        self._settings = settings
        self._embedder = embedder
        if vectors is None and embedder is not None:
            vectors = {owner: VectorCache(owner, embedder.model_id, embedder.dimension) for owner in "pen"}
        self._vectors = vectors or {}
        #: True while the vectors are loaded for the first time.
        self._is_filling = False
        self._query_embedder = QueryEmbedder(embedder)
        self._term_counts = {table: TermCounts(table) for table in ("passage_fts", "episode_fts", "note_fts")}

    def refresh(self) -> int:
        """Load new vectors and drop deleted ones; return the number of rows loaded.

        Return 0 immediately while another thread is filling the caches for the first time.
        """
        if self._is_filling:
            return 0
        self._is_filling = not all(cache.is_filled for cache in self._vectors.values())
        try:
            return sum(cache.refresh(self._store) for cache in self._vectors.values())
        finally:
            self._is_filling = False

    def catch_up(self) -> int:
        """Load new vectors and return how many; the next ``refresh`` drops deleted ones.

        A deleted row is never shown in the meantime, since every hit is read from memory.db.
        """
        if self._is_filling:
            return 0
        return sum(cache.catch_up(self._store) for cache in self._vectors.values())

    @property
    def index_bytes(self) -> int:
        return sum(cache.bytes_used for cache in self._vectors.values())

    def recall(self, query: Query) -> list[Hit]:
        """Return the best memories, best first; if the query has a project, only those of the project and global ones.

        Weak matches are dropped unless ``thorough`` is set.
        """
        parsed, wait_for_vector = self._parse(query), self._query_embedder.start(query.text)
        candidates = self._retrieve_memories(query, parsed, wait_for_vector)
        ranking = rank(candidates, parsed)
        if query.thorough:
            best = best_places(ranking.score, query.limit)
            return self._with_use_factors(self._memory_hits(candidates, ranking, best, query.branch))
        counts, total = self._term_counts["episode_fts"].count(self._store, parsed.terms)
        coverage = Coverage(parsed.terms, counts, total)
        is_relevant, is_doubtful = select_relevant(candidates, parsed, coverage, self._relevance_floor)
        best = best_places(np.where(is_relevant, ranking.score, -np.inf), query.limit)
        hits = self._memory_hits(candidates, ranking, best, query.branch)
        return [replace(hit, is_doubtful=True) for hit in hits] if is_doubtful else hits

    def _retrieve_memories(self, query: Query, parsed: ParsedQuery, wait_for_vector: VectorWait) -> MemoryCandidates:
        """Return the matches by text and vector, searching the text index while the question is being embedded."""
        terms = self._select_terms(parsed, "episode_fts")
        bm25 = dict(search_memories(self._store, terms, MAX_CANDIDATES, project_id=query.project_id))
        vector = wait_for_vector()
        ids = sorted({*bm25, *self._nearest_memories(vector, query)})
        rows = {row_id: row for row_id, row in search_rows(self._store, ids).items() if _is_visible(query, row)}
        return build_candidates(rows, bm25, self._memory_cosines(vector, sorted(rows)))

    def search(self, query: Query, *, without: Collection[str] = ()) -> list[Hit]:
        """Return the best passages of turns and chunks of notes, word for word, best first.

        Passages from folders that are now excluded are left out, as are quotations that were judged wrong. ``without``
        names feature groups to ignore, in order to measure what each contributes.
        """
        parsed, wait_for_vector = self._parse(query), self._query_embedder.start(query.text)
        hits = self._find_passages(query, parsed, wait_for_vector, without=without)
        hits += find_notes(self._search_index("n", "note_fts"), query, parsed, wait_for_vector())
        return sorted(hits, key=lambda hit: -hit.score)[: query.limit]

    def _find_passages(
        self,
        query: Query,
        parsed: ParsedQuery,
        wait_for_vector: VectorWait,
        *,
        without: Collection[str] = (),
        is_worth: Callable[[CandidateSet], bool] | None = None,
    ) -> list[Hit]:
        """Return the best passages, leaving out those that were read before their folder was excluded."""
        index = self._search_index("p", "passage_fts")
        hits = find_passages(index, query, parsed, wait_for_vector, without=without, is_worth=is_worth)
        return [hit for hit in hits if not is_excluded(hit.cwd, self._settings.exclude)]

    def look_up(self, query: Query) -> tuple[list[Hit], str]:
        """Return the texts that contain the question's exact words, and ""; otherwise the closest texts and an
        introduction.

        If the question has quoted phrases or consists of a name in code, and texts contain all of these, only such
        texts are returned. For any other question, texts that contain the whole question come first. The closest texts
        are sorted by how many of its rare words they contain.
        """
        words = question_words_of(query.text)
        words = [word for word in words if word not in QUESTION_STOP_WORDS] or words
        phrases, name = phrases_of(query.text), only_name(query.text)
        is_phrase = bool(phrases)
        # A shell removes quotes, so texts that contain the whole question, word for word, come first. So do texts that
        # contain a single word in a script without spaces, since many texts contain its pairs of letters, or a word
        # that is not a term, such as a single letter or a word that is common in questions.
        is_asked_whole = len(question_words_of(query.text)) > 1 or is_unspaced(query.text)
        is_asked_whole = is_asked_whole or not self._parse(query).terms
        whole = name or (query.text.strip() if is_asked_whole else "")
        phrases = phrases or ((whole,) if whole else ())
        exact = self.search(replace(query, phrases=phrases)) if phrases else []
        # Many other texts contain the parts of a name.
        if exact and (is_phrase or name):
            return exact, ""
        if is_phrase:
            return self._closest(query, words), self._of_project(NOBODY_SAID_PHRASE, query.project_id)
        if exact:
            shown = set(map(_message_of, exact))
            others = [hit for hit in self.search(query) if _message_of(hit) not in shown]
            return [*exact, *others][: query.limit], ""
        if self._is_said(words, query.project_id):
            return self.search(query), ""
        typed = {word.lower(): word for word in re.findall(r"\w+", query.text)}
        line = self._unsaid_line([typed.get(word, word) for word in words], query.project_id)
        return self._closest(query, words), self._of_project(line, query.project_id)

    def _of_project(self, line: str, project_id: int | None) -> str:
        """Return an introduction to the closest texts that names the only project that was searched."""
        project = None if project_id is None else project_by_id(self._store, project_id)
        return line if project is None else line.replace(_CLOSEST, f" in {one_line(project.name, 60)}{_CLOSEST}")

    def _closest(self, query: Query, words: Sequence[str]) -> list[Hit]:
        """Return the texts that come closest to a question, if none contains all of its words."""
        wanted = self.coverage_of(" ".join(words))
        found = self.search(replace(query, limit=max(query.limit, MAX_CLOSEST)))
        return sorted(found, key=lambda hit: -wanted.share(wanted.stems_in(hit.text)))[: query.limit]

    def _unsaid_line(self, words: Sequence[str], project_id: int | None) -> str:
        """Return the introduction to the closest texts, which lists the words that nobody said."""
        words = list(dict.fromkeys(words))
        if len(words) > MAX_SINGLE_WORDS:
            return NOBODY_SAID_WORDS
        unsaid = [word for word in words if not has_all_words(self._store, [word], project_id=project_id)]
        if unsaid == words and len(words) > 1:
            return NOBODY_SAID_ANY
        named = " or ".join(f"“{one_line(word, MAX_WORD_CHARACTERS)}”" for word in unsaid)
        return NOBODY_SAID_SOME.format(named) if unsaid else NOBODY_SAID_WORDS

    def _is_said(self, words: Sequence[str], project_id: int | None) -> bool:
        if has_all_words(self._store, words, project_id=project_id):
            return True
        # The words may be spread over several passages of a longer text, so compare whole text blocks.
        near = search_passages(self._store, [tuple(words)], MAX_CANDIDATES, project_id=project_id)
        blocks = {row.said_id for row in passage_rows(self._store, [row_id for row_id, _ in near]).values()}
        wanted = Coverage(words, dict.fromkeys(words, 1), 2)
        texts = texts_of_blocks(self._store, sorted(blocks)).values()
        return any(wanted.share(wanted.stems_in(text)) > MIN_SAID_SHARE for text in texts)

    def coverage_of(self, text: str) -> Coverage:
        """Return the weights of a question's words, according to their rarity in passages."""
        terms = terms_of(text)
        counts, total = self._term_counts["passage_fts"].count(self._store, terms)
        return Coverage(terms, counts, total)

    def support(self, query: Query, hits: Sequence[Hit]) -> Support:
        """Return the evidence for the memories found for a prompt, from passages, other memories and rare words."""
        vector, memories, passages = (
            self._query_embedder.embed(query.text),
            self._vectors.get("e"),
            self._vectors.get("p"),
        )
        support = Support(rarity=rarity_of_words(self._store, self._term_counts["passage_fts"], query.text, hits))
        if vector is not None and memories is not None and passages is not None:
            by_source, by_turn = evidence_cosines(self._store, passages, vector, hits)
            usual = usual_cosine(memories, vector, query.project_id)
            support = replace(support, by_source=by_source, by_turn=by_turn, usual_cosine=usual)
        if any(hit.cosine is None for hit in hits):
            found = self.search(replace(query, limit=SUPPORTING_PASSAGES))
            support = replace(support, text_by_turn=text_support(found))
        return support

    def quotable(self, query: Query, floor: Floor | None = None) -> tuple[list[Hit], Support]:
        """Return single passages that may answer a prompt, best first, and their evidence; empty without a model.

        Doubtful hits are left out. If no passage reaches ``floor``, nothing is ranked and the result is empty.
        """
        vector, passages = self._query_embedder.embed(query.text), self._vectors.get("p")
        if vector is None or passages is None:
            return [], Support()
        usual = usual_cosine(passages, vector, query.project_id)
        is_worth = None if floor is None else partial(self._reaches, floor, query.text, usual)
        found = self._find_passages(query, self._parse(query), lambda: vector, is_worth=is_worth)
        found = [hit for hit in sorted(found, key=lambda hit: -hit.score)[: query.limit] if not hit.is_doubtful]
        rows = passage_rows(self._store, [hit.row_id for hit in found])
        hits = [replace(hit, text=rows[hit.row_id].text) for hit in found if hit.row_id in rows and hit.cosine]
        return hits, self._support_by_words(query.text, usual, hits)

    def _reaches(self, floor: Floor, text: str, usual: float, candidates: CandidateSet) -> bool:
        """Return whether any candidate is relevant enough for a prompt, reading only those that are close enough."""
        is_near = candidates.cosine >= max(usual + floor.least_meaning, np.finfo(float).tiny)
        cosines = dict(zip(candidates.ids[is_near].tolist(), candidates.cosine[is_near].tolist(), strict=True))
        rows = passage_rows(self._store, list(cosines))
        near = [
            Hit("", "turn", row.text, 0.0, {}, turn_id=row.turn_id, row_id=row.id, cosine=cosines[row.id])
            for row in rows.values()
        ]
        support = self._support_by_words(text, usual, near)
        return any(floor.is_reached(hit, support) for hit in near)

    def _support_by_words(self, text: str, usual: float, hits: Sequence[Hit]) -> Support:
        """Return the evidence for passages: the usual cosine to the prompt, and the rarity of shared words."""
        rarity = rarity_of_words(self._store, self._term_counts["passage_fts"], text, hits) if hits else {}
        return Support(usual_cosine=usual, rarity=rarity)

    def similar_memories(self, row_ids: Sequence[int], min_cosine: float) -> list[tuple[int, int, float]]:
        """Return ``(one of row_ids, another row id, cosine)`` for similar memories, most similar first.

        Pairs within ``row_ids`` are left out, because memories that were saved together are one statement. Empty
        without an embedder.
        """
        cache = self._vectors.get("e")
        if cache is None or self._embedder is None:
            return []
        own = set(row_ids)
        pairs = []
        for row_id, _, data in vectors_of(self._store, "e", self._embedder.model_id, list(own)):
            vector = np.frombuffer(data, dtype=np.float16).astype(np.float32)
            nearest = cache.search(vector, MAX_SIMILAR, None)
            pairs += [
                (row_id, other, cosine)
                for other, cosine in nearest.items()
                if other not in own and cosine >= min_cosine
            ]
        return sorted(pairs, key=lambda pair: -pair[2])

    def is_unanswered(self, passages: Sequence[Hit], cosines: Sequence[float | None]) -> bool | None:
        """Return True if none of the hits answers the question; None if unknown.

        Args:
            passages: the result of ``search`` for the question.
            cosines: those of the hits that would be shown first. If any is None (no vector yet), the result is None.
        """
        known = [cosine for cosine in cosines if cosine is not None]
        if len(known) < len(cosines):
            return None
        return is_unanswered(_support_of(passages), max(known, default=0.0), self._relevance_floor)

    def is_unsure(
        self, passages: Sequence[Hit], cosines: Sequence[float | None], share: float, unknown_names: Collection[str]
    ) -> bool:
        """Return True if there is too little support to be sure that the hits answer a question.

        Args:
            passages, cosines: as for ``is_unanswered``.
            share: the largest share of the question's words in a hit.
            unknown_names: the question's proper names that nothing contains. They and ``share`` decide alone while
                vectors are missing.
        """
        known = [cosine for cosine in cosines if cosine is not None]
        is_unknown = len(known) < len(cosines) and is_far(max(known, default=0.0), self._relevance_floor)
        if self._embedder is None or is_unknown:
            return bool(unknown_names) or share < MIN_WORDS_SHARE
        return is_unsupported(_support_of(passages))

    def is_name_unknown(self, query: Query, coverage: Coverage, cosines: Sequence[float | None]) -> bool:
        """Return whether the question contains a proper name that no text contains, and no hit is near the question.

        Args:
            cosines: as for ``is_unanswered``; None values are ignored, but at least one cosine must be known.
        """
        known = [cosine for cosine in cosines if cosine is not None]
        is_none_near = bool(known) and is_far(max(known), self._relevance_floor)
        return is_none_near and bool(self.unknown_names(query, coverage))

    def unknown_names(self, query: Query, coverage: Coverage, texts: Iterable[str] = ()) -> frozenset[str]:
        """Return the question's proper names, in lower case, that neither a passage nor one of the texts contains."""
        names = coverage.unknown_terms.intersection(self._parse(query).proper_names)
        return names.difference(topic_words("\n".join(texts).lower())) if names else names

    @property
    def _relevance_floor(self) -> float:
        """The model's cosine below which text is unrelated to a question; 0 without a model."""
        return self._embedder.thresholds.relevance_floor if self._embedder is not None else 0.0

    def _parse(self, query: Query) -> ParsedQuery:
        return parse_query(query, self._store.now_ms() if query.now_ms is None else query.now_ms)

    def _search_index(self, owner: str, table: str) -> SearchIndex:
        return SearchIndex(self._store, self._vectors.get(owner), self._term_counts[table], self._relevance_floor)

    def _nearest_memories(self, vector: Floats | None, query: Query) -> dict[int, float]:
        cache = self._vectors.get("e")
        if vector is None or cache is None:
            return {}
        return cache.search(vector, MAX_CANDIDATES, query.project_id)

    def _memory_cosines(self, vector: Floats | None, ids: Sequence[int]) -> dict[int, float]:
        cache = self._vectors.get("e")
        return {} if vector is None or cache is None else cache.scores_of(vector, ids)

    def _select_terms(self, parsed: ParsedQuery, table: str) -> list[Term]:
        counts, total = self._term_counts[table].count(self._store, parsed.terms)
        return select_terms(parsed.terms, counts, total)

    def _memory_hits(
        self, candidates: MemoryCandidates, ranking: Ranking, best: Sequence[int], branch: str
    ) -> list[Hit]:
        memories = memories_by_row(self._store, [int(candidates.ids[index]) for index in best])
        evidence_by_id = evidence_by_row(self._store, list(memories))
        hits = []
        for index in best:
            memory = memories.get(int(candidates.ids[index]))
            if memory is None:
                continue
            evidence = evidence_by_id.get(memory.id, [])
            hits.append(
                Hit(
                    id=memory.episode_id,
                    kind=memory.kind,
                    text=memory.summary,
                    score=float(ranking.score[index]),
                    parts=ranking.parts_of(index),
                    project=memory.project,
                    created_at_ms=memory.created_at_ms,
                    evidence=tuple(EvidencePlace.unread(entry.uuid) for entry in evidence if entry.uuid),
                    status=memory.status,
                    importance=memory.importance,
                    memory=memory,
                    session_id=memory.session_id,
                    turn_id=evidence[0].turn_id if evidence else None,
                    row_id=memory.id,
                    cosine=_cosine(candidates, index),
                )
            )
        return sink_other_branches(hits, open_branches(self._store, [hit.row_id for hit in hits]), branch)

    def _with_use_factors(self, hits: Sequence[Hit]) -> list[Hit]:
        uses = usefulness_of(self._store, [hit.id for hit in hits])
        return [replace(hit, use_factor=uses[hit.id].factor) if hit.id in uses else hit for hit in hits]


def _support_of(passages: Sequence[Hit]) -> float:
    return next((hit.support for hit in passages if hit.support is not None), 0.0)


def with_places(store: Reader, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, adding to each memory the places of its evidence."""
    uuids = {place.uuid for hit in hits if hit.memory is not None for place in hit.evidence}
    places = {place.uuid: place for place in places_of(store, uuids)}
    return [
        hit if hit.memory is None else replace(hit, evidence=tuple(places[place.uuid] for place in hit.evidence))
        for hit in hits
    ]


def public_hits(store: Reader, hits: Sequence[Hit], asked_in: int | None = None) -> list[PublicHit]:
    """Return hits in their public form, each with its origin, using five database queries in total.

    Args:
        asked_in: row id of the asker's project; titles, folders and pull requests of other projects' sessions are left
            out. If None, none are left out.
    """
    hits = with_places(store, hits)
    sessions = sessions_of(store, {hit.session_id for hit in hits if hit.session_id})
    own = {name: row for name, row in sessions.items() if asked_in is None or row.own_project_id == asked_in}
    titles = session_titles(store, own.values())
    links = pull_requests_of(store, own)
    commits = last_commits_of(store, {hit.turn_id for hit in hits if hit.turn_id is not None})
    # For Claude Code, the command depends on the transcript; the cache ensures that each transcript is read only once.
    command_of = cache(_command_of)
    return [
        PublicHit.of(
            hit,
            Origin(
                resume=_resume_command(hit, sessions.get(hit.session_id), command_of),
                commit="" if hit.turn_id is None else commits.get(hit.turn_id, ""),
                pull_request=_pull_request_for(hit.created_at_ms, links.get(hit.session_id, ())),
                assistant=_assistant_of(sessions.get(hit.session_id)),
                session_title=titles.get(hit.session_id, ""),
                folder=own[hit.session_id].cwd if hit.session_id in own else "",
            ),
        )
        for hit in hits
    ]


def _resume_command(hit: Hit, session: SessionRow | None, command_of: Callable[[str, str, Path], str]) -> str:
    """Return the command that resumes a hit's session; "" if its transcript is gone."""
    paths = (Path(place.path) for place in hit.evidence if place.path and os.path.exists(place.path))
    path = next(paths, None)
    return command_of(session.agent, hit.session_id, path) if session is not None and path else ""


def _command_of(agent_name: str, session_id: str, path: Path) -> str:
    from engram.transcripts.registry import resume_command  # loads every agent's reader; few hits need it

    return resume_command(agent_name, session_id, path)


def _assistant_of(session: SessionRow | None) -> str:
    if session is None:
        return Origin().assistant
    from engram.transcripts.registry import assistant_of  # as in _command_of

    return assistant_of(session.agent)


def _pull_request_for(at_ms: int, links: Sequence[PullRequest]) -> str:
    """Return the first pull request mentioned after a time, or else the last one before it; "" if none."""
    later = (link.url for link in links if link.at_ms >= at_ms)
    return next(later, links[-1].url if links else "")


def _message_of(hit: Hit) -> object:
    """Return a key that identifies a passage's message or a note's chunk."""
    return hit.evidence[0].uuid if hit.turn_id and hit.evidence else hit.id


def _is_visible(query: Query, row: MemoryRow) -> bool:
    return query.project_id is None or row.is_global or row.project_id == query.project_id


def _cosine(candidates: MemoryCandidates, index: int) -> float | None:
    cosine = float(candidates.cosine[index])
    return None if np.isnan(cosine) else cosine
