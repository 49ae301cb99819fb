"""Extract the features of a passage: about 35 numbers, each in a named group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from engram.models.passage_rows import PassageRow
from engram.search.episodes.candidates import Column
from engram.search.passages.candidate_set import CandidateSet, Indexes, Shortlist, shares_of_best_cosine
from engram.search.passages.recency_features import extract_recency_features
from engram.search.question.coverage import Coverage
from engram.search.question.intent import TextTraits, parse_speaker, text_traits
from engram.search.question.parsed import ParsedQuery

#: Passages before and after that count as near.
_NEAR_PASSAGES = 10
#: A message of the user with fewer words is short.
_SHORT_WORDS = 40
#: Minimum number of texts that a name must begin to be a speaker's.
_MIN_SPEAKER_TEXTS = 3
#: Minimum share of the texts that must begin with a speaker's name in a chat.
_MIN_CHAT_SHARE = 0.5
#: Distance to the named time of a passage whose own time is unknown, in days.
_UNKNOWN_DAYS = 1e6
_HOUR_MS = 3_600_000.0

#: Group → its features; the order is that of the weights.
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
#: Every group once, in the order in which parts of a score are shown.
GROUP_NAMES = tuple(_FEATURES_OF_GROUP)


def extract_features(shortlist: Shortlist, query: ParsedQuery, coverage: Coverage) -> dict[str, Column]:
    """Return every feature of the shortlist, each as a column."""
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
    """Return BM25, the share of the question's terms in the passage, and what its neighbours add to that."""
    stems = {row.id: coverage.stems_in(row.text) for row in shortlist.rows.values()}
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
    """Return the cosine as a share of the best, and as it is."""
    candidates = shortlist.candidates
    best = float(candidates.known_cosines.max(initial=0.0))
    share = shares_of_best_cosine(candidates.text, candidates.cosine)[shortlist.places]
    return {"cos": share, "cos_raw": 2 * best * share}


def _neighbour_features(shortlist: Shortlist) -> dict[str, Column]:
    """Return the prerank scores around a passage: its neighbours', its entry's, its turn's and its session's."""
    candidates, places = shortlist.candidates, shortlist.places
    prerank = candidates.prerank_score
    before = candidates.neighbour_values(-1, prerank, places)
    session = candidates.best_in_session(prerank)
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
    """Return whether the passage before, in the same session, ends with a question mark."""
    own = shortlist.row_at(place)
    before = shortlist.rows.get(own.id - 1)
    return before is not None and before.session_ref == own.session_ref and before.text.endswith("?")


def _near_mean(candidates: CandidateSet, places: Indexes) -> Column:
    """Return the mean of the three best prerank scores within ten passages of the session, without its own."""
    distances = [distance for distance in range(-_NEAR_PASSAGES, _NEAR_PASSAGES + 1) if distance]
    values = np.stack(
        [candidates.neighbour_values(distance, candidates.prerank_score, places) for distance in distances]
    )
    return np.asarray(np.partition(values, -3, axis=0)[-3:].sum(axis=0) / 3, dtype=np.float64)


def _time_features(shortlist: Shortlist, rows: list[PassageRow], query: ParsedQuery) -> dict[str, Column]:
    """Return how a passage lies to the time that the question names; all 0 if it names none."""
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
        features["t_last"] = query.intent.wants_last * inside * np.exp2(-hours_to_end / 2)
        features["t_closing"] = inside * np.array([float(row.is_closing) for row in rows])
        features["t_user"] = inside * np.array([float(row.role == "user") for row in rows])
    return features


def _name_features(rows: list[PassageRow], query: ParsedQuery) -> dict[str, Column]:
    """Return the share of the question's names that a passage contains."""
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
    """Return who speaks: in a chat the speaker that the question names, in a session the user."""
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
    """Return the form of a passage: a question, times, numbers, code, its place in its message."""
    return {
        "isq": np.array([trait.is_question for trait in traits]),
        "when_time": query.intent.wants_time * np.array([trait.has_time for trait in traits]),
        "how_many": query.intent.wants_number * np.array([trait.has_number for trait in traits]),
        "code": np.array([trait.has_code for trait in traits]),
        "first": np.array([float(row.start == 0) for row in rows]),
        "place": np.array([min(1.0, row.start / max(row.said_chars, 1)) for row in rows]),
    }
