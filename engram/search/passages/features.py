"""The signs of a passage: about thirty numbers, each in the group of the step that it belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from engram.models.search_rows import PassageRow
from engram.search.episodes.pool import Column
from engram.search.passages.candidate_set import Indexes, PassagePool, Read
from engram.search.passages.latest import latest_signs
from engram.search.question.coverage import Coverage
from engram.search.question.intent import TextForm, form_of, speaker_of
from engram.search.question.parsed import Asked

#: Passages before and behind that count as near.
_NEAR_PASSAGES = 10
#: A message of the user below this is short, in words.
_SHORT_WORDS = 40
#: So often a name must stand before texts to be a speaker's.
_SPEAKER_TIMES = 3
#: So large a share of the passages begins with the name of a speaker where it is a chat.
_CHAT_SHARE = 0.5
_HOUR_MS = 3_600_000.0

#: Sign → the step it belongs to, in the order of the weights.
GROUPS: Mapping[str, str] = {
    "text": "text", "cover": "text",
    "cos": "vector", "cos_raw": "vector",
    "cover_near": "neighbours", "prev": "neighbours", "next": "neighbours", "near": "neighbours",
    "said_best": "neighbours", "turn_best": "neighbours", "answers": "neighbours",
    "sess": "session", "sess_best": "session",
    "time": "time", "t_after": "time", "t_before": "time", "t_last": "time", "t_closing": "time", "t_user": "time",
    "names": "names",
    "speaker": "speaker", "speaker_not": "speaker", "user_short": "speaker", "rule": "speaker", "rule_asked": "speaker",
    "isq": "form", "when_time": "form", "how_many": "form", "code": "form", "first": "form", "place": "form",
    "late": "latest", "late_now": "latest", "change": "latest", "newest": "latest", "in_session": "latest",
}  # fmt: skip

#: Every step once, in the order in which parts are shown.
STEP_NAMES = tuple(dict.fromkeys(GROUPS.values()))


def signs_of(read: Read, asked: Asked, coverage: Coverage) -> dict[str, Column]:
    """All signs of the chosen passages, each a column."""
    rows = [read.row(int(place)) for place in read.chosen]
    forms = [form_of(row.text, is_user=row.role == "user", asked=asked.form) for row in rows]
    speakers = speakers_of([row.text for row in rows])
    return (
        _text_signs(read, rows, coverage)
        | _vector_signs(read)
        | _neighbour_signs(read)
        | _time_signs(read, rows, asked)
        | _name_signs(rows, asked)
        | _voice_signs(rows, forms, asked, speakers)
        | _form_signs(rows, forms, asked)
        | latest_signs(read, rows, forms, asked, is_chat=bool(speakers))
    )


def _text_signs(read: Read, rows: list[PassageRow], coverage: Coverage) -> dict[str, Column]:
    found = {row.id: coverage.found_in(row.text) for row in read.rows.values()}
    own = np.array([coverage.share(found[row.id]) for row in rows])
    wide = np.array(
        [
            coverage.share(found[row.id].union(*(found[beside.id] for beside in read.neighbours(int(place)))))
            for row, place in zip(rows, read.chosen, strict=True)
        ]
    )
    return {"text": read.pool.text[read.chosen], "cover": own, "cover_near": wide - own}


def _vector_signs(read: Read) -> dict[str, Column]:
    cosine = read.pool.cosine
    best = max(float(cosine.max(initial=0.0)), 1e-6)
    return {"cos": cosine[read.chosen] / best, "cos_raw": 2 * cosine[read.chosen]}


def _neighbour_signs(read: Read) -> dict[str, Column]:
    pool, chosen = read.pool, read.chosen
    before = pool.beside(-1, pool.base, chosen)
    session = pool.three_best_of_session(pool.base)
    best = max(float(session.max(initial=0.0)), 1e-6)
    asks = np.array([float(_is_question_before(read, int(place))) for place in chosen])
    return {
        "prev": before, "next": pool.beside(1, pool.base, chosen), "answers": asks * before,
        "near": _best_near(pool, chosen),
        "said_best": pool.best_of(pool.said, pool.base)[chosen],
        "turn_best": pool.best_of(pool.turn, pool.base)[chosen],
        "sess": session[chosen] / best, "sess_best": (session[chosen] >= best).astype(np.float64),
    }  # fmt: skip


def _is_question_before(read: Read, place: int) -> bool:
    own = read.row(place)
    before = read.rows.get(own.id - 1)
    return before is not None and before.session_ref == own.session_ref and before.text.endswith("?")


def _best_near(pool: PassagePool, chosen: Indexes) -> Column:
    """The mean of the three best guesses within ten passages of the same session, without its own."""
    around = [apart for apart in range(-_NEAR_PASSAGES, _NEAR_PASSAGES + 1) if apart]
    values = np.stack([pool.beside(apart, pool.base, chosen) for apart in around])
    return np.asarray(np.partition(values, -3, axis=0)[-3:].sum(axis=0) / 3, dtype=np.float64)


def _time_signs(read: Read, rows: list[PassageRow], asked: Asked) -> dict[str, Column]:
    names = ("time", "t_after", "t_before", "t_last", "t_closing", "t_user")
    signs = {name: np.zeros(len(rows)) for name in names}
    if asked.span is None or not rows:
        return signs
    days = np.array([asked.span.distance_days(row.at_ms) if row.at_ms else 1e6 for row in rows])
    signs["time"] = np.exp2(-np.minimum(days, 1000.0))
    inside = signs["time"] > 0.5
    if inside.any():
        at = np.array([row.at_ms for row in rows], dtype=np.float64)
        anchor = at[int(np.argmax(np.where(inside, read.pool.base[read.chosen], -1.0)))]
        hours = np.clip((at - anchor) / _HOUR_MS, -200.0, 200.0)
        to_end = np.clip((at[inside].max() - at) / _HOUR_MS, 0.0, 200.0)
        signs["t_after"] = asked.form.wants_after * inside * (hours > 0) * np.exp2(-np.abs(hours) / 2)
        signs["t_before"] = asked.form.wants_before * inside * (hours < 0) * np.exp2(-np.abs(hours) / 2)
        signs["t_last"] = asked.form.wants_last * inside * np.exp2(-to_end / 2)
        signs["t_closing"] = inside * np.array([float(row.is_closing) for row in rows])
        signs["t_user"] = inside * np.array([float(row.role == "user") for row in rows])
    return signs


def _name_signs(rows: list[PassageRow], asked: Asked) -> dict[str, Column]:
    if not asked.names:
        return {"names": np.zeros(len(rows))}
    lowered = [row.text.lower() for row in rows]
    return {"names": np.array([sum(name in one for name in asked.names) / len(asked.names) for one in lowered])}


def speakers_of(texts: Sequence[str]) -> frozenset[str]:
    """Who speaks in a chat, in lower case; nobody where most texts begin without a name."""
    counted = Counter(name for text in texts if (name := speaker_of(text)))
    often = {name: times for name, times in counted.items() if times >= _SPEAKER_TIMES}
    return frozenset(often if sum(often.values()) >= _CHAT_SHARE * len(texts) else ())


def _voice_signs(
    rows: list[PassageRow], forms: list[TextForm], asked: Asked, speakers: frozenset[str]
) -> dict[str, Column]:
    """Who speaks: in a chat the speaker that the question names, in a session the user."""
    named = {name for name in speakers if name in asked.words or all(part in asked.words for part in name.split())}
    is_one = len(named) == 1
    user = np.array([float(row.role == "user" and not speakers) for row in rows])
    rule = user * np.array([form.is_directive for form in forms])
    return {
        "speaker": np.array([float(is_one and form.speaker in named) for form in forms]),
        "speaker_not": np.array([float(is_one and bool(form.speaker) and form.speaker not in named) for form in forms]),
        "user_short": user * np.array([float(len(row.text.split()) < _SHORT_WORDS) for row in rows]),
        "rule": rule, "rule_asked": rule * asked.form.wants_rule,
    }  # fmt: skip


def _form_signs(rows: list[PassageRow], forms: list[TextForm], asked: Asked) -> dict[str, Column]:
    return {
        "isq": np.array([form.is_question for form in forms]),
        "when_time": asked.form.wants_time * np.array([form.has_time for form in forms]),
        "how_many": asked.form.wants_number * np.array([form.has_number for form in forms]),
        "code": np.array([form.has_code for form in forms]),
        "first": np.array([float(row.start == 0) for row in rows]),
        "place": np.array([min(1.0, row.start / max(row.said_chars, 1)) for row in rows]),
    }
