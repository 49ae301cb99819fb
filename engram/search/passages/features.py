"""Extract the features of a passage, about 35 numbers in named groups, and score them with a linear model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from engram.models.sessions.passage_rows import PassageRow
from engram.search.passages.candidate_set import CandidateSet, Indexes, Shortlist, shares_of_best_cosine
from engram.search.question import Coverage, ParsedQuery, TextTraits, parse_speaker, text_traits
from engram.search.ranking import Column, Ranking, means_of_best
from engram.system.lazy_regex import lazy_regex
from engram.text.words import QUESTION_STOP_WORDS

# -- Recency features: which of two passages on a subject is later, words of change, the position in a session. Pure.

#: Number of the best passages relative to which lateness is measured.
_MAX_LATE_AMONG = 25
#: Number of the best passages with which each passage is compared.
_MAX_RIVALS = 60
#: Two passages are about the same subject if they share at least this many words, and this share of the words of the
#: shorter one.
_MIN_SHARED_WORDS, _MIN_SHARED_SHARE = 3, 0.25
_WORD = lazy_regex(r"[a-z_][a-z0-9_]{2,}")


def extract_recency_features(
    shortlist: Shortlist, rows: Sequence[PassageRow], traits: Sequence[TextTraits], query: ParsedQuery, *, is_chat: bool
) -> dict[str, Column]:
    """Return how late each passage is among the best, among those about its subject, and in its session.

    The last two are 0 in a chat, where later statements don't replace earlier ones.
    """
    at = np.array([row.at_ms for row in rows], dtype=np.float64)
    top = at[:_MAX_LATE_AMONG]
    low, high = (float(top.min()), float(top.max())) if len(top) else (0.0, 0.0)
    late = np.clip((at - low) / max(high - low, 1.0), 0.0, 1.0)
    zeros = np.zeros(len(rows))
    return {
        "late": late,
        "late_now": late * query.intent.wants_latest,
        "change": np.array([trait.is_change for trait in traits]),
        "newest": zeros if is_chat else _newest(shortlist, rows),
        "in_session": zeros if is_chat else _place_in_session(rows),
    }


def _newest(shortlist: Shortlist, rows: Sequence[PassageRow]) -> Column:
    """Return how strongly each passage supersedes an earlier one, minus how strongly a later one supersedes it, from -1
    to 1.

    Similarity is weighted by the other passage's prerank score. Passages of one entry never supersede each other.
    """
    similarity = _similarity(
        [frozenset(_WORD.findall(row.text.lower())) - QUESTION_STOP_WORDS for row in rows], _MAX_RIVALS
    )
    rivals = similarity.shape[1]
    block, order = np.array([row.said_id for row in rows]), _time_order(rows)
    prerank = shortlist.candidates.prerank_score[shortlist.places[:rivals]]
    similarity = np.where(block[:, None] == block[None, :rivals], 0.0, similarity) * prerank
    is_later = order[None, :rivals] > order[:, None]
    superseded = np.where(is_later, similarity, 0.0).max(axis=1, initial=0.0)
    return np.asarray(np.where(is_later, 0.0, similarity).max(axis=1, initial=0.0) - superseded, dtype=np.float64)


def _similarity(word_sets: Sequence[frozenset[str]], rivals: int) -> Column:
    """Return the share of words that each text has in common with each of the first ``rivals``; 0 if it is small."""
    # Most words occur in a single text, or in none of the rivals, and are never shared, so they need no column.
    counts, of_rivals = Counter(chain.from_iterable(word_sets)), frozenset().union(*word_sets[:rivals])
    columns = {word: place for place, word in enumerate(word for word in of_rivals if counts[word] > 1)}
    table: NDArray[np.float32] = np.zeros((len(word_sets), max(len(columns), 1)), dtype=np.float32)
    places = [[columns[word] for word in words if word in columns] for words in word_sets]
    table[np.repeat(np.arange(len(places)), list(map(len, places))), list(chain.from_iterable(places))] = 1
    sizes = np.array([len(words) for words in word_sets], dtype=np.float32)
    shared = table @ table[:rivals].T
    share = shared / np.maximum(np.minimum(sizes[:, None], sizes[None, :rivals]), 1.0)
    is_same_matter = (shared >= _MIN_SHARED_WORDS) & (share >= _MIN_SHARED_SHARE)
    return np.where(is_same_matter, share, 0.0).astype(np.float64)


def _time_order(rows: Sequence[PassageRow]) -> NDArray[np.intp]:
    """Return the position of each passage in chronological order.

    Row ids only break ties between equal times, since transcripts may have been read in any order.
    """
    places = np.lexsort(([row.id for row in rows], [row.at_ms for row in rows]))
    order: NDArray[np.intp] = np.argsort(places)
    return order


def _place_in_session(rows: Sequence[PassageRow]) -> Column:
    """Return each passage's position among those of its session, from 0 (first) to 1 (last); 0 if there is only one."""
    sessions, ids = np.array([row.session_ref for row in rows]), np.array([row.id for row in rows])
    order = np.lexsort((ids, sessions))
    _, starts, sizes = np.unique(sessions[order], return_index=True, return_counts=True)
    places = np.empty(len(rows))
    places[order] = (np.arange(len(rows)) - np.repeat(starts, sizes)) / np.repeat(np.maximum(sizes - 1, 1), sizes)
    return places


#: Number of passages before and after that count as near.
_NEAR_PASSAGES = 10
#: A user message with fewer words than this is short.
_SHORT_WORDS = 40
#: A name counts as a speaker's if at least this number of texts begin with it.
_MIN_SPEAKER_TEXTS = 3
#: Texts count as a chat if at least this share of them begin with a speaker's name.
_MIN_CHAT_SHARE = 0.5
#: Distance, in days, between the time in the question and a passage whose time is unknown.
_UNKNOWN_DAYS = 1e6
_HOUR_MS = 3_600_000.0

#: Group → its features, in the order of the weights.
_FEATURES_OF_GROUP: Mapping[str, tuple[str, ...]] = {
    "text": ("text", "cover"),
    "vector": ("cos", "cos_raw"),
    "neighbours": ("cover_near", "prev", "next", "near", "said_best", "turn_best", "answers"),
    "session": ("sess", "sess_best"),
    "time": ("time", "t_after", "t_before", "t_last", "t_closing", "t_user"),
    "names": ("names",),
    "speaker": ("speaker", "speaker_not", "user_short", "rule", "rule_asked"),
    "form": ("isq", "when_time", "how_many", "code", "first", "place"),
    "latest": ("late", "late_now", "change", "newest", "in_session"),
}

#: Feature → its group.
FEATURE_GROUPS: Mapping[str, str] = {
    feature: group for group, features in _FEATURES_OF_GROUP.items() for feature in features
}


def extract_features(shortlist: Shortlist, query: ParsedQuery, coverage: Coverage) -> dict[str, Column]:
    rows = [shortlist.row_at(int(place)) for place in shortlist.places]
    traits = [text_traits(row.text, is_user=row.role == "user", intent=query.intent) for row in rows]
    speakers = chat_speakers([row.text for row in rows])
    return (
        _text_features(shortlist, rows, coverage)
        | _vector_features(shortlist)
        | _neighbour_features(shortlist)
        | _time_features(shortlist, rows, query)
        | _name_features(rows, query)
        | _speaker_features(rows, traits, query, speakers)
        | _form_features(rows, traits, query)
        | extract_recency_features(shortlist, rows, traits, query, is_chat=bool(speakers))
    )


def _text_features(shortlist: Shortlist, rows: list[PassageRow], coverage: Coverage) -> dict[str, Column]:
    """Return BM25, the share of the question's terms in the passage, and what its neighbours add to that share."""
    texts = [row.text for row in shortlist.rows.values()]
    stems = dict(zip(shortlist.rows, coverage.stems_in_each(texts), strict=True))
    own = np.array([coverage.share(stems[row.id]) for row in rows])
    wide = np.array(
        [
            coverage.share(
                stems[row.id].union(*(stems[neighbour.id] for neighbour in shortlist.neighbours(int(place))))
            )
            for row, place in zip(rows, shortlist.places, strict=True)
        ]
    )
    return {"text": shortlist.candidates.text[shortlist.places], "cover": own, "cover_near": wide - own}


def _vector_features(shortlist: Shortlist) -> dict[str, Column]:
    """Return the cosine as a share of the best, and the cosine itself, doubled."""
    candidates = shortlist.candidates
    best = float(candidates.known_cosines.max(initial=0.0))
    share = shares_of_best_cosine(candidates.text, candidates.cosine)[shortlist.places]
    return {"cos": share, "cos_raw": 2 * best * share}


def _neighbour_features(shortlist: Shortlist) -> dict[str, Column]:
    """Return the prerank scores of each passage's neighbours, entry, turn and session."""
    candidates, places = shortlist.candidates, shortlist.places
    prerank = candidates.prerank_score
    before = candidates.neighbour_values(-1, prerank, places)
    session = means_of_best(candidates.session, prerank)
    best_session = max(float(session.max(initial=0.0)), 1e-6)
    follows_question = np.array([float(_follows_question(shortlist, int(place))) for place in places])
    return {
        "prev": before,
        "next": candidates.neighbour_values(1, prerank, places),
        "answers": follows_question * before,
        "near": _near_mean(candidates, places),
        "said_best": candidates.best_in_group(candidates.block, prerank)[places],
        "turn_best": candidates.best_in_group(candidates.turn, prerank)[places],
        "sess": session[places] / best_session,
        "sess_best": (session[places] >= best_session).astype(np.float64),
    }


def _follows_question(shortlist: Shortlist, place: int) -> bool:
    own = shortlist.row_at(place)
    before = shortlist.rows.get(own.id - 1)
    return before is not None and before.session_ref == own.session_ref and before.text.endswith("?")


def _near_mean(candidates: CandidateSet, places: Indexes) -> Column:
    """Return the mean of the three best prerank scores within ten passages in the session, excluding the passage
    itself.
    """
    distances = np.array([distance for distance in range(-_NEAR_PASSAGES, _NEAR_PASSAGES + 1) if distance])
    values = candidates.neighbour_values(distances[:, np.newaxis], candidates.prerank_score, places)
    return np.asarray(np.partition(values, -3, axis=0)[-3:].sum(axis=0) / 3, dtype=np.float64)


def _time_features(shortlist: Shortlist, rows: list[PassageRow], query: ParsedQuery) -> dict[str, Column]:
    """Return how each passage's time relates to the time that the question names; all 0 if it names none."""
    features = {name: np.zeros(len(rows)) for name in _FEATURES_OF_GROUP["time"]}
    if query.date_range is None or not rows:
        return features
    days = np.array([query.date_range.distance_days(row.at_ms) if row.at_ms else _UNKNOWN_DAYS for row in rows])
    features["time"] = np.exp2(-np.minimum(days, 1000.0))
    inside = features["time"] > 0.5
    if inside.any():
        at = np.array([row.at_ms for row in rows], dtype=np.float64)
        anchor = at[int(np.argmax(np.where(inside, shortlist.candidates.prerank_score[shortlist.places], -1.0)))]
        hours = np.clip((at - anchor) / _HOUR_MS, -200.0, 200.0)
        hours_to_end = np.clip((at[inside].max() - at) / _HOUR_MS, 0.0, 200.0)
        nearness = np.exp2(-np.abs(hours) / 2)
        features["t_after"] = query.intent.wants_after * inside * (hours > 0) * nearness
        features["t_before"] = query.intent.wants_before * inside * (hours < 0) * nearness
        features["t_last"] = np.asarray(query.intent.wants_last * inside * np.exp2(-hours_to_end / 2), dtype=np.float64)
        features["t_closing"] = inside * np.array([float(row.is_closing) for row in rows])
        features["t_user"] = inside * np.array([float(row.role == "user") for row in rows])
    return features


def _name_features(rows: list[PassageRow], query: ParsedQuery) -> dict[str, Column]:
    if not query.names:
        return {"names": np.zeros(len(rows))}
    texts = [row.text.lower() for row in rows]
    return {"names": np.array([sum(name in text for name in query.names) / len(query.names) for text in texts])}


def chat_speakers(texts: Sequence[str]) -> frozenset[str]:
    """Return the speakers of a chat, in lower case; none if most texts begin without a name."""
    counts = Counter(name for text in texts if (name := parse_speaker(text)))
    frequent = {name: count for name, count in counts.items() if count >= _MIN_SPEAKER_TEXTS}
    return frozenset(frequent if sum(frequent.values()) >= _MIN_CHAT_SHARE * len(texts) else ())


def _speaker_features(
    rows: list[PassageRow], traits: list[TextTraits], query: ParsedQuery, speakers: frozenset[str]
) -> dict[str, Column]:
    """Return features of the speaker: named by the question (in a chat), or the user (in a session)."""
    named = {name for name in speakers if name in query.words or all(part in query.words for part in name.split())}
    is_single = len(named) == 1
    is_user = np.array([float(row.role == "user" and not speakers) for row in rows])
    rule = is_user * np.array([trait.is_directive for trait in traits])
    return {
        "speaker": np.array([float(is_single and trait.speaker in named) for trait in traits]),
        "speaker_not": np.array(
            [float(is_single and bool(trait.speaker) and trait.speaker not in named) for trait in traits]
        ),
        "user_short": is_user * np.array([float(len(row.text.split()) < _SHORT_WORDS) for row in rows]),
        "rule": rule,
        "rule_asked": rule * query.intent.wants_rule,
    }


def _form_features(rows: list[PassageRow], traits: list[TextTraits], query: ParsedQuery) -> dict[str, Column]:
    """Return features of the form of a passage: a question, times, numbers, code, the position in the message."""
    return {
        "isq": np.array([trait.is_question for trait in traits]),
        "when_time": query.intent.wants_time * np.array([trait.has_time for trait in traits]),
        "how_many": query.intent.wants_number * np.array([trait.has_number for trait in traits]),
        "code": np.array([trait.has_code for trait in traits]),
        "first": np.array([float(row.start == 0) for row in rows]),
        "place": np.array([min(1.0, row.start / max(row.said_chars, 1)) for row in rows]),
    }


# -- The linear model over the features; ``benchmarks/train_ranking.py`` learns its weights.

#: A score is a tenth of the weighted sum, so that the best hits score about 1.
SCORE_SCALE = 0.1
WEIGHTS_FILE = "passage_weights.json"


@dataclass(frozen=True, slots=True)
class RankingModel:
    weights: Mapping[str, float]

    def rank(self, features: Mapping[str, Column], *, without: Collection[str] = ()) -> Ranking:
        """Return one score for each passage, and what each feature group added."""
        parts: dict[str, Column] = {}
        for feature, group in FEATURE_GROUPS.items():
            if group not in without:
                added = SCORE_SCALE * self.weights.get(feature, 0.0) * features[feature]
                parts[group] = parts[group] + added if group in parts else added
        size = len(next(iter(features.values())))
        return Ranking(sum(parts.values(), np.zeros(size)), parts)


@cache
def load_ranking_model(*, with_vectors: bool) -> RankingModel:
    """Load the shipped weights, for text and vectors or for text alone."""
    file = resources.files(__package__).joinpath(WEIGHTS_FILE)
    weights = json.loads(file.read_text(encoding="utf-8"))
    return RankingModel(weights["with_model" if with_vectors else "text_alone"])
