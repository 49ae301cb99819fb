"""Which hits become bites: relevant, firm, of this project, no two alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engram.models.memories.memory_records import Memory
from engram.recollection.choose_bites import (
    AGAINST,
    EITHER,
    FEATURES,
    Bite,
    FeatureContext,
    InjectionRequest,
    Thresholds,
    bites_of,
    features,
    load_weights,
    logistic,
    rate_hit,
    rate_hits,
)
from engram.recollection.render_bites import MAX_OVERRUN_CHARACTERS, bites_text, shown_words
from engram.search.hits import Hit
from engram.search.support import Support, text_support

REQUEST = InjectionRequest("Why does the watcher hold a flock and no PID file?", "now", 1)


def hit(text: str, number: int = 1, *, cosine: float | None = 0.6, text_part: float = 0.4, **fields: Any) -> Hit:
    memory = Memory(
        f"ep_{number:012d}",
        "fact",
        text,
        text,
        project_id=1,
        quality=0.5,
        importance=fields.pop("importance", "normal"),
        questions=fields.pop("questions", ("Why?",)),
    )
    made = Hit(
        id=memory.episode_id,
        kind="fact",
        text=text,
        score=1.0,
        parts={"text": text_part},
        memory=memory,
        cosine=cosine,
        turn_id=number,
        row_id=number,
    )
    return replace(made, importance=memory.importance, **fields)


FITTING = "The watcher holds watcher.lock by flock, never by a PID file"
#: What was said in the turns of the first five memories fits, and the words of the prompt are rare.
SUPPORT = Support(
    by_source=dict.fromkeys(range(1, 6), 0.6),
    by_turn=dict.fromkeys(range(1, 6), 0.6),
    rarity={"watch": 2.0, "hold": 1.0, "flock": 3.0, "pid": 3.0, "file": 1.0},
    text_by_turn=dict.fromkeys(range(1, 6), 1.0),
)


def choose_bites(*arguments: Any) -> list[Bite]:
    return bites_of(rate_hits(*arguments))


def likely(memory: Hit, context: FeatureContext) -> float:
    return rate_hit(memory, context)[0]


def test_a_memory_that_fits_is_chosen_and_one_that_does_not_is_not() -> None:
    far = hit("Invoices live in Postgres", 2, cosine=0.1, text_part=0.0)

    assert [bite.text for bite in choose_bites([hit(FITTING), far], REQUEST, SUPPORT)] == [FITTING]
    assert choose_bites([far], REQUEST, SUPPORT) == []


@pytest.mark.parametrize("cosine", [0.6, None])
def test_what_was_said_in_its_turn_supports_a_memory(cosine: float | None) -> None:
    memory = hit(FITTING, cosine=cosine)
    bare = replace(SUPPORT, by_source={1: 0.1}, by_turn={1: 0.1}, text_by_turn={})
    supported, unsupported = (FeatureContext.of(REQUEST.text, support) for support in (SUPPORT, bare))

    assert likely(memory, supported) > likely(memory, unsupported)


def test_support_by_text_is_a_share_of_the_best_passage_of_each_turn() -> None:
    passages = [replace(hit("x", 1), score=0.8), replace(hit("y", 2), score=0.4), replace(hit("z", 1), score=0.2)]

    assert text_support(passages) == {1: 1.0, 2: 0.5}
    assert text_support([]) == {}


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    memory = hit("The flock is held")
    rare, common = (
        FeatureContext.of(REQUEST.text, replace(SUPPORT, rarity={"flock": rarity})) for rarity in (6.0, 1.0)
    )

    assert likely(memory, rare) > likely(memory, common)


@pytest.mark.parametrize("cosine", [0.6, None])
def test_a_memory_that_rests_on_no_turn_supports_itself(cosine: float | None) -> None:
    saved = replace(hit(FITTING, cosine=cosine), turn_id=None)
    rarity = Support(rarity=SUPPORT.rarity)

    assert len(choose_bites([saved], REQUEST, rarity)) == 1


@pytest.mark.parametrize(("cosine", "questions"), [(0.6, ("Why?",)), (0.6, ()), (None, ("Why?",))])
def test_every_memory_is_rated_by_the_same_features(cosine: float | None, questions: tuple[str, ...]) -> None:
    memory = hit(FITTING, cosine=cosine, questions=questions)

    (rated,) = rate_hits([memory], REQUEST, SUPPORT)

    assert tuple(rated.features) == FEATURES == tuple(load_weights().by_feature)
    every = features(memory, FeatureContext.of(REQUEST.text, SUPPORT))
    assert rated.score == pytest.approx(logistic(load_weights(), every))


def test_a_weight_never_says_the_opposite_of_what_its_feature_means() -> None:
    weights = load_weights().by_feature
    assert all(weights[name] <= 0 for name in AGAINST)
    assert all(weights[name] >= 0 for name in set(FEATURES) - AGAINST - EITHER)


def test_questions_and_confirmation_are_not_needed_to_be_told() -> None:
    scores = {
        rated.score
        for questions in ((), ("Why?",))
        for rated in rate_hits([hit(FITTING, questions=questions)], REQUEST, SUPPORT)
    }
    assert len(scores) == 1


def test_more_cosine_never_makes_a_memory_less_relevant() -> None:
    memories = [hit(FITTING, cosine=step / 20) for step in range(20)]
    by_cosine = [likely(memory, FeatureContext.of(REQUEST.text, SUPPORT)) for memory in memories]

    assert by_cosine == sorted(by_cosine)


def test_an_own_session_memory_must_be_surer() -> None:
    own = replace(hit(FITTING), session_id="now")
    sure = likely(own, FeatureContext.of(REQUEST.text, SUPPORT))

    assert choose_bites([own], REQUEST, SUPPORT, Thresholds(relevance=sure * 0.95)) == []
    assert choose_bites([replace(own, session_id="old")], REQUEST, SUPPORT, Thresholds(relevance=sure * 0.95))


def test_no_two_bites_say_the_same_and_three_are_the_most() -> None:
    hits = [hit(FITTING, 1), hit(FITTING.replace("never", "not"), 2)]
    others = [
        "flock of a watcher ends with its process",
        "a stale PID file stopped the watcher",
        "why hold a lock: two watchers race",
    ]
    hits += [hit(text, number) for number, text in enumerate(others, 3)]

    found = choose_bites(hits, REQUEST, SUPPORT, Thresholds(relevance=0.1, below_best=0.0))

    assert len(found) == 3
    assert sum("watcher.lock" in bite.text for bite in found) == 1


def test_of_bites_that_do_not_fit_the_best_comes_whole() -> None:
    long = " ".join(f"word{number}" for number in range(60))
    bites = choose_bites(
        [hit(f"flock watcher PID file {long[:330]}", 1), hit(FITTING, 2)], REQUEST, SUPPORT, Thresholds(below_best=0.0)
    )

    shown = shown_words(bites, 90)

    assert not shown[0][1].endswith("…")
    assert sum(len(words) for _, words in shown) <= 360 + MAX_OVERRUN_CHARACTERS
    assert bites_text([], 120) == ""


def test_an_unused_memory_falls_behind_one_that_is_as_relevant() -> None:
    equals = [hit(FITTING, 1), hit(FITTING, 2)]
    (best,) = choose_bites(equals, REQUEST, SUPPORT)

    sunk = [replace(memory, use_factor=0.85 if memory.id == best.episode_id else 1.0) for memory in equals]

    (bite,) = choose_bites(sunk, REQUEST, SUPPORT)
    assert bite.episode_id != best.episode_id


@pytest.mark.parametrize("spared", [{"importance": "high"}, {"is_pinned": True}, {"source": "manual"}])
def test_an_unused_memory_needs_more_relevance_unless_it_is_important_or_kept_by_hand(spared: dict[str, Any]) -> None:
    plain = replace(hit(FITTING), use_factor=0.85)
    memory = replace(plain.memory, **spared) if plain.memory else None
    kept = replace(plain, memory=memory, importance=spared.get("importance", "normal"))
    score = likely(plain, FeatureContext.of(REQUEST.text, SUPPORT))
    narrowly = Thresholds(relevance=score * 0.95)

    assert choose_bites([replace(plain, use_factor=1.0)], REQUEST, SUPPORT, narrowly)
    assert not choose_bites([plain], REQUEST, SUPPORT, narrowly)
    assert choose_bites([kept], REQUEST, SUPPORT, narrowly)


def test_a_helpful_memory_needs_less_relevance() -> None:
    score = likely(hit(FITTING), FeatureContext.of(REQUEST.text, SUPPORT))
    narrowly = Thresholds(relevance=min(score * 1.05, 1.0))

    assert not choose_bites([hit(FITTING)], REQUEST, SUPPORT, narrowly)
    assert choose_bites([replace(hit(FITTING), use_factor=1.1)], REQUEST, SUPPORT, narrowly)
