"""What looks alike but speaks of something else stays; what a person saved or pinned is replaced by a person alone."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from engram.clock import FixedClock
from engram.consolidation.service import consolidate, undo_run
from engram.consolidation.supersede import replaces
from engram.embedding.embedder import Embedder
from engram.enums import Importance, Kind, Scope, Status, Voice
from engram.errors import BadRequest, NotFound
from engram.memories.correct import correct_memory, keep_both, keep_one
from engram.memories.forget import forget_episode
from engram.memories.save import pin_memory, save_memory
from engram.models import contradictions, episode_history, episodes, runs
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.redaction import redact
from engram.search.vectors.backfill import embed_missing
from engram.search.vectors.pairs import similar_pairs
from engram.settings import Settings

DATA = runpy.run_path(str(Path(__file__).with_name("near_pairs.py")))
BOTH_HOLD: list[tuple[str, str]] = DATA["BOTH_HOLD"]
CHANGES: list[tuple[str, str]] = DATA["CHANGES"]
Keep = Callable[..., Episode]


def decision(summary: str) -> Episode:
    return Episode(episodes.new_episode_id(), "decision", summary, summary, scope=Scope.GLOBAL)


def why(embedder: Embedder, older: str, newer: str) -> str:
    rows = embedder.embed([older, newer])
    return replaces(decision(newer), decision(older), float(np.dot(rows[0], rows[1])))


def state(store: Store, *memories: Episode) -> list[tuple[str, str]]:
    found = [episodes.find_episode(store, one.episode_id) for one in memories]
    return [(one.status, one.superseded_by) for one in found if one is not None]


def tidy(store: Store, settings: Settings, embedder: Embedder) -> tuple[str, ...]:
    while embed_missing(store, embedder):
        pass
    similar = partial(similar_pairs, store, embedder.model_id)
    return consolidate(
        store, settings, similar=similar, duplicate_cosine=embedder.thresholds.duplicate, is_forced=True
    ).lines


@pytest.mark.model
def test_of_pairs_that_look_alike_none_replaces_the_other(bundled: Embedder) -> None:
    assert len(BOTH_HOLD) >= 50

    wrong = [(older, newer, told) for older, newer in BOTH_HOLD if (told := why(bundled, older, newer))]

    assert wrong == []


def test_not_even_where_a_model_takes_them_for_the_same() -> None:
    wrong = [pair for pair in BOTH_HOLD if replaces(decision(pair[1]), decision(pair[0]), 0.99)]

    assert wrong == []


@pytest.mark.model
def test_real_changes_are_seen(bundled: Embedder) -> None:
    assert len(CHANGES) >= 20

    missed = [(older, newer) for older, newer in CHANGES if not why(bundled, older, newer)]

    assert len(missed) <= 2, missed


@pytest.mark.model
@pytest.mark.parametrize("voice", ["user", "agent"])
def test_no_saved_memory_goes_out_of_force_by_itself(
    store: Store, settings: Settings, clock: FixedClock, bundled: Embedder, voice: str
) -> None:
    saved = []
    for text in dict.fromkeys(text for pair in BOTH_HOLD + CHANGES for text in pair):
        clock.advance(3600)
        saved.append(save_memory(store, text, redact, scope=Scope.GLOBAL, voice=voice))

    tidy(store, settings, bundled)

    assert state(store, *saved) == [("active", "")] * len(saved)
    waiting = contradictions.open_contradictions(store)
    assert len(waiting) >= 15
    assert tidy(store, settings, bundled) == ()
    assert len(contradictions.open_contradictions(store)) == len(waiting)


@pytest.mark.model
def test_a_saved_memory_and_what_is_said_later_become_a_contradiction(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep, bundled: Embedder
) -> None:
    saved = save_memory(
        store, "We deploy with Jenkins pipelines", redact, scope=Scope.GLOBAL, voice=Voice.USER, kind=Kind.DECISION
    )
    pinned = keep("The queue lives in Redis", is_pinned=True)
    clock.advance(3600)
    later = keep("We deploy with GitHub Actions from now on, no longer with Jenkins pipelines", voice=Voice.USER)
    moved = keep("The queue moved from Redis to SQLite")

    lines = tidy(store, settings, bundled)

    assert state(store, saved, pinned, later, moved) == [("active", "")] * 4
    assert {(one.older_id, one.newer_id) for one in contradictions.open_contradictions(store)} == {
        (saved.episode_id, later.episode_id),
        (pinned.episode_id, moved.episode_id),
    }
    assert sum("contradiction" in line for line in lines) == 2


# -- correcting


def test_a_correction_replaces_in_one_step_with_its_reason(store: Store, keep: Keep) -> None:
    old = keep("Deploy with make deploy", importance=Importance.HIGH)

    done = correct_memory(store, old.episode_id, "Deploy with make ship. Never by hand.", "it was renamed", redact)

    assert done.contradiction == 0
    assert (done.made.summary, done.made.voice, done.made.source) == (
        "Deploy with make ship. Never by hand.", "agent", "manual",
    )  # fmt: skip
    assert (done.made.kind, done.made.scope, done.made.importance) == (old.kind, old.scope, "high")
    assert state(store, old) == [("superseded", done.made.episode_id)]
    assert episode_history.history_of(store, old.episode_id)[-1].reason == "corrected: it was renamed"
    with pytest.raises(BadRequest, match=done.made.episode_id):
        correct_memory(store, old.episode_id, "Something else", "again", redact)


def test_a_correction_can_be_undone(store: Store, settings: Settings, keep: Keep) -> None:
    old = keep("Deploy with make deploy")
    done = correct_memory(store, old.episode_id, "Deploy with make ship", "it was renamed", redact)
    (run,) = runs.list_runs(store)

    undo_run(store, settings, run.id)

    assert state(store, old, done.made) == [("active", ""), ("archived", "")]


@pytest.mark.parametrize("own", ["pinned", "saved"])
def test_what_is_a_persons_own_is_not_corrected_by_an_agent(store: Store, keep: Keep, own: str) -> None:
    if own == "saved":
        old = save_memory(store, "Deploy on Tuesdays", redact, scope=Scope.GLOBAL, voice=Voice.USER)
    else:
        old = pin_memory(store, keep("Deploy on Tuesdays").episode_id)

    done = correct_memory(store, old.episode_id, "Deploy on Mondays", "a guess", redact)

    assert episodes.find_episode(store, old.episode_id) == old
    assert done.made.status == Status.PROVISIONAL
    (waiting,) = contradictions.open_contradictions(store)
    assert (waiting.id, waiting.older_id, waiting.newer_id) == (
        done.contradiction, old.episode_id, done.made.episode_id,
    )  # fmt: skip
    assert "a guess" in waiting.reason


def test_an_agent_that_saves_over_it_gets_a_contradiction_too_and_a_person_replaces_it(store: Store) -> None:
    old = save_memory(store, "Deploy on Tuesdays", redact, scope=Scope.GLOBAL, voice=Voice.USER)
    save_memory(store, "Deploy on Mondays", redact, scope=Scope.GLOBAL, supersedes=old.episode_id, voice=Voice.AGENT)
    assert state(store, old) == [("active", "")]
    assert len(contradictions.open_contradictions(store)) == 1

    new = save_memory(
        store, "Deploy on Fridays", redact, scope=Scope.GLOBAL, supersedes=old.episode_id, voice=Voice.USER
    )

    assert state(store, old) == [("superseded", new.episode_id)]
    assert contradictions.open_contradictions(store) == []


def test_an_agent_corrects_what_an_agent_saved(store: Store) -> None:
    old = save_memory(store, "Deploy on Tuesdays", redact, scope=Scope.GLOBAL, voice=Voice.AGENT)

    done = correct_memory(store, old.episode_id, "Deploy on Mondays", "the user said so", redact)

    assert state(store, old) == [("superseded", done.made.episode_id)]


@pytest.mark.parametrize(("text", "reason"), [("", "x"), ("x", " "), ("x", "why " * 126)])
def test_a_correction_needs_a_text_and_a_reason(store: Store, keep: Keep, text: str, reason: str) -> None:
    old = keep("Deploy with make deploy")

    with pytest.raises(BadRequest):
        correct_memory(store, old.episode_id, text, reason, redact)

    assert state(store, old) == [("active", "")]


def test_a_correction_masks_secrets(store: Store, keep: Keep) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2

    done = correct_memory(store, keep("The token").episode_id, f"Log in with {secret}", f"it is {secret}", redact)

    assert secret not in done.made.content
    assert not store.rows("SELECT 1 FROM history WHERE reason LIKE ?", (f"%{secret}%",))


# -- deciding


@pytest.fixture
def disputed(store: Store) -> tuple[Episode, Episode, int]:
    old = save_memory(store, "Deploy on Tuesdays", redact, scope=Scope.GLOBAL, voice=Voice.USER)
    done = correct_memory(store, old.episode_id, "Deploy on Mondays", "a guess", redact)
    return old, done.made, done.contradiction


def test_a_person_keeps_one(store: Store, settings: Settings, disputed: tuple[Episode, Episode, int]) -> None:
    old, new, _ = disputed

    keep_one(store, new.episode_id)

    assert state(store, old, new) == [("superseded", new.episode_id), ("active", "")]
    assert contradictions.open_contradictions(store) == []
    decided = runs.list_runs(store)[0]
    assert decided.kind == "decide"
    undo_run(store, settings, decided.id)
    assert state(store, old, new) == [("active", ""), ("provisional", "")]
    assert len(contradictions.open_contradictions(store)) == 1


def test_a_person_keeps_the_older(store: Store, disputed: tuple[Episode, Episode, int]) -> None:
    old, new, _ = disputed

    keep_one(store, old.episode_id)

    assert state(store, old, new) == [("active", ""), ("superseded", old.episode_id)]


@pytest.mark.parametrize("by", ["number", "id"])
def test_a_person_keeps_both_and_is_not_asked_again(
    store: Store, disputed: tuple[Episode, Episode, int], by: str
) -> None:
    old, new, number = disputed

    keep_both(store, str(number) if by == "number" else old.episode_id)

    assert state(store, old, new) == [("active", ""), ("active", "")]
    assert contradictions.open_contradictions(store) == []
    with store.transaction() as tx:
        assert contradictions.note_contradiction(tx, new.episode_id, old.episode_id, "again") == 0


def test_what_is_not_disputed_cannot_be_decided(store: Store, keep: Keep) -> None:
    with pytest.raises(BadRequest, match="no open contradiction"):
        keep_one(store, keep("undisputed").episode_id)
    with pytest.raises(NotFound):
        keep_both(store, "99")


def test_a_contradiction_goes_with_a_forgotten_memory(
    store: Store, settings: Settings, disputed: tuple[Episode, Episode, int]
) -> None:
    forget_episode(store, settings.places, disputed[1].episode_id)

    assert contradictions.open_contradictions(store) == []
    assert store.rows("SELECT * FROM contradiction") == []
