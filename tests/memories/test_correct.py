"""Correcting a memory replaces it with a reason; a person decides between two that contradict each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from memory_states import states_of

from engram.consolidation.undo import undo_run
from engram.enums import Actor, Importance, Scope, Status
from engram.errors import BadRequest, NotFound
from engram.forgetting.forget import forget_memory
from engram.memories.correct import correct_memory, keep_both, keep_one
from engram.memories.save import pin_memory, save_memory
from engram.models.engine.transaction import Store
from engram.models.memories import judgements, memory_history, memory_records
from engram.models.memories.memory_records import Memory
from engram.redaction import redact
from engram.settings import Settings

Keep = Callable[..., Memory]


def test_a_correction_replaces_in_one_step_with_its_reason(store: Store, keep: Keep) -> None:
    old = keep("Deploy with make deploy", importance=Importance.HIGH)

    done = correct_memory(
        store, old.episode_id, "Deploy with make ship. Never by hand.", "it was renamed", redact, actor=Actor.AGENT
    )

    assert done.contradiction == 0
    assert (done.made.summary, done.made.voice, done.made.source) == (
        "Deploy with make ship. Never by hand.",
        "agent",
        "manual",
    )
    assert (done.made.kind, done.made.scope, done.made.importance) == (old.kind, old.scope, "high")
    assert states_of(store, old) == [("superseded", done.made.episode_id)]
    assert memory_history.history_of(store, old.episode_id)[-1].reason == "corrected: it was renamed"
    with pytest.raises(BadRequest, match=done.made.episode_id):
        correct_memory(store, old.episode_id, "Something else", "again", redact, actor=Actor.AGENT)


def test_a_correction_can_be_undone(store: Store, settings: Settings, keep: Keep) -> None:
    old = keep("Deploy with make deploy")
    done = correct_memory(store, old.episode_id, "Deploy with make ship", "it was renamed", redact, actor=Actor.AGENT)
    (run,) = memory_history.list_runs(store)

    undo_run(store, settings, run.id, actor=Actor.USER)

    assert states_of(store, old, done.made) == [("active", ""), ("archived", "")]


@pytest.mark.parametrize("own", ["pinned", "saved"])
def test_what_is_a_persons_own_is_not_corrected_by_an_agent(store: Store, keep: Keep, own: str) -> None:
    if own == "saved":
        old = save_memory(store, "Deploy on Tuesdays", redact, scope=Scope.GLOBAL, actor=Actor.USER)
    else:
        old = pin_memory(store, keep("Deploy on Tuesdays").episode_id, actor=Actor.USER)

    done = correct_memory(store, old.episode_id, "Deploy on Mondays", "a guess", redact, actor=Actor.AGENT)

    assert memory_records.find_memory(store, old.episode_id) == old
    assert done.made.status == Status.PROVISIONAL
    (waiting,) = judgements.open_contradictions(store)
    assert (waiting.id, waiting.older_id, waiting.newer_id) == (
        done.contradiction,
        old.episode_id,
        done.made.episode_id,
    )
    assert "a guess" in waiting.reason


def test_an_agent_that_saves_over_it_gets_a_contradiction_too_and_a_person_replaces_it(store: Store) -> None:
    old = save_memory(store, "Deploy on Tuesdays", redact, scope=Scope.GLOBAL, actor=Actor.USER)
    save_memory(store, "Deploy on Mondays", redact, scope=Scope.GLOBAL, supersedes=old.episode_id, actor=Actor.AGENT)
    assert states_of(store, old) == [("active", "")]
    assert len(judgements.open_contradictions(store)) == 1

    new = save_memory(
        store, "Deploy on Fridays", redact, scope=Scope.GLOBAL, supersedes=old.episode_id, actor=Actor.USER
    )

    assert states_of(store, old) == [("superseded", new.episode_id)]
    assert judgements.open_contradictions(store) == []


def test_an_agent_corrects_what_an_agent_saved(store: Store) -> None:
    old = save_memory(store, "Deploy on Tuesdays", redact, scope=Scope.GLOBAL, actor=Actor.AGENT)

    done = correct_memory(store, old.episode_id, "Deploy on Mondays", "the user said so", redact, actor=Actor.AGENT)

    assert states_of(store, old) == [("superseded", done.made.episode_id)]


@pytest.mark.parametrize(
    ("text", "reason"), [("", "x"), ("…", "x"), (" —!", "x"), ("x", " "), ("x", "…"), ("x", "why " * 126)]
)
def test_a_correction_needs_a_text_and_a_reason(store: Store, keep: Keep, text: str, reason: str) -> None:
    old = keep("Deploy with make deploy")

    with pytest.raises(BadRequest):
        correct_memory(store, old.episode_id, text, reason, redact, actor=Actor.AGENT)

    assert states_of(store, old) == [("active", "")]


def test_a_correction_masks_secrets(store: Store, keep: Keep) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2

    done = correct_memory(
        store, keep("The token").episode_id, f"The login is {secret}", f"it is {secret}", redact, actor=Actor.AGENT
    )

    assert secret not in done.made.content
    assert not store.rows("SELECT 1 FROM history WHERE reason LIKE ?", (f"%{secret}%",))


@pytest.fixture
def disputed(store: Store) -> tuple[Memory, Memory, int]:
    old = save_memory(store, "Deploy on Tuesdays", redact, scope=Scope.GLOBAL, actor=Actor.USER)
    done = correct_memory(store, old.episode_id, "Deploy on Mondays", "a guess", redact, actor=Actor.AGENT)
    return old, done.made, done.contradiction


def test_a_person_keeps_one(store: Store, settings: Settings, disputed: tuple[Memory, Memory, int]) -> None:
    old, new, _ = disputed

    keep_one(store, new.episode_id, actor=Actor.USER)

    assert states_of(store, old, new) == [("superseded", new.episode_id), ("active", "")]
    assert judgements.open_contradictions(store) == []
    decided = memory_history.list_runs(store)[0]
    assert decided.kind == "decide"
    undo_run(store, settings, decided.id, actor=Actor.USER)
    assert states_of(store, old, new) == [("active", ""), ("provisional", "")]
    assert len(judgements.open_contradictions(store)) == 1


def test_a_person_keeps_the_older(store: Store, disputed: tuple[Memory, Memory, int]) -> None:
    old, new, _ = disputed

    keep_one(store, old.episode_id, actor=Actor.USER)

    assert states_of(store, old, new) == [("active", ""), ("superseded", old.episode_id)]


@pytest.mark.parametrize("by", ["number", "id"])
def test_a_person_keeps_both_and_is_not_asked_again(
    store: Store, disputed: tuple[Memory, Memory, int], by: str
) -> None:
    old, new, number = disputed

    keep_both(store, str(number) if by == "number" else old.episode_id, actor=Actor.USER)

    assert states_of(store, old, new) == [("active", ""), ("active", "")]
    assert judgements.open_contradictions(store) == []
    with store.transaction() as tx:
        assert judgements.note_contradiction(tx, new.episode_id, old.episode_id, "again") == 0


def test_what_is_not_disputed_cannot_be_decided(store: Store, keep: Keep) -> None:
    with pytest.raises(BadRequest, match="no open contradiction"):
        keep_one(store, keep("undisputed").episode_id, actor=Actor.USER)
    with pytest.raises(NotFound):
        keep_both(store, "99", actor=Actor.USER)


def test_a_contradiction_goes_with_a_forgotten_memory(
    store: Store, settings: Settings, disputed: tuple[Memory, Memory, int]
) -> None:
    forget_memory(store, settings.places, disputed[1].episode_id, actor=Actor.USER)

    assert judgements.open_contradictions(store) == []
    assert store.rows("SELECT * FROM contradiction") == []
