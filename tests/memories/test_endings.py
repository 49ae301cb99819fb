"""What the user decided ends only by the user, whichever part of Engram would end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import (
    archive_exact_duplicates,
    merge_near_duplicates,
    reconcile,
    supersede_pairs,
)
from engram.enums import Actor, Judgement, Kind, Scope, Source, Status, Voice
from engram.errors import BadRequest
from engram.extraction.candidate import Candidate
from engram.extraction.model.second_chance import replace_memories
from engram.extraction.store_candidates import apply_actions
from engram.memories.correct import correct_memory, judge_memory, supersede_memory
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import open_contradictions
from engram.models.memories.memory_history import add_run
from engram.models.memories.memory_records import Evidence, Memory, find_memory
from engram.models.projects.projects import ensure_project
from engram.recollection.briefing_lines import is_in_force
from engram.redaction import redact
from engram.settings import Settings

Keep = Callable[..., Memory]
Pairs = Callable[..., Iterator["Pair"]]

OLD = "We deploy the shop with Jenkins pipelines"
NEW = "We deploy the shop with GitHub Actions from now on, no longer with Jenkins pipelines"
ENDS, OPEN, STAYS = "ends", "contradiction", "stays"
ADA = "teammate ada"

#: How a memory was kept → the fields that say so.
KEPT: dict[str, dict[str, Any]] = {
    "said by the user": {"voice": Voice.USER},
    "chosen by the user": {"voice": Voice.CHOSEN},
    "said by the assistant": {"voice": Voice.ASSISTANT},
    "of an unknown voice": {"voice": Voice.from_stored("whatever")},
    "saved by the user": {"voice": Voice.USER, "source": Source.MANUAL},
    "saved by an agent": {"voice": Voice.AGENT, "source": Source.MANUAL},
    "pinned, said by the assistant": {"voice": Voice.ASSISTANT, "is_pinned": True},
    "pinned, said by the user": {"voice": Voice.USER, "is_pinned": True},
    "pinned, saved by an agent": {"voice": Voice.AGENT, "source": Source.MANUAL, "is_pinned": True},
}
USERS = ("said by the user", "chosen by the user")
OTHERS = ("said by the assistant", "of an unknown voice")
#: Who speaks later → the fields of that memory.
LATER: dict[str, dict[str, Any]] = {
    "the user": {"voice": Voice.USER},
    "the user's choice": {"voice": Voice.CHOSEN},
    "the assistant": {"voice": Voice.ASSISTANT},
    "an agent's save": {"voice": Voice.AGENT, "source": Source.MANUAL},
    "suspect": {"voice": Voice.USER, "suspect": "an order in relayed text"},
    "ada's user": {"voice": Voice.USER, "origin": ADA},
}


def wanted_of_a_process(kept: str, later: str) -> str:
    """What should become of a memory if something happens by itself."""
    if later in ("suspect", "ada's user"):
        return STAYS
    if kept in OTHERS:
        return ENDS
    if kept in USERS:
        return ENDS if later.startswith("the user") else OPEN
    return OPEN


def without_contradictions(kept: str, later: str) -> str:
    """The same for memories that say the same: there is nothing to decide."""
    return ENDS if wanted_of_a_process(kept, later) == ENDS else STAYS


def wanted_of_an_agent(kept: str) -> str:
    """What should become of a memory that an agent replaces with a tool."""
    return ENDS if kept in (*OTHERS, "saved by an agent") else OPEN


def outcome(store: Store, older: Memory) -> str:
    now = find_memory(store, older.episode_id)
    assert now is not None
    if not now.is_current:
        return ENDS
    return OPEN if open_contradictions(store, older.episode_id) else STAYS


def _summary(store: Store, memory: Memory) -> str:
    now = find_memory(store, memory.episode_id)
    assert now is not None
    return now.summary


@dataclass
class Pair:
    kept: str
    later: str
    older: Memory
    newer: Memory


@pytest.fixture
def pairs(keep: Keep) -> Pairs:
    def make(old: str = OLD, new: str = NEW, **fields: Any) -> Iterator[Pair]:
        for kept, later in product(KEPT, LATER):
            older = keep(old, **{"created_at_ms": 1_000, "session_id": "s1"} | fields | KEPT[kept])
            newer = keep(new, **{"created_at_ms": 2_000, "session_id": "s2"} | fields | LATER[later])
            yield Pair(kept, later, older, newer)

    return make


def check(store: Store, made: Sequence[Pair], wanted: Callable[[str, str], str]) -> None:
    found = {(pair.kept, pair.later): outcome(store, pair.older) for pair in made}
    assert found == {(pair.kept, pair.later): wanted(pair.kept, pair.later) for pair in made}
    assert len(found) == len(KEPT) * len(LATER)


def test_tidying_by_rules(store: Store, settings: Settings, pairs: Pairs) -> None:
    made = list(pairs())

    supersede_pairs(Context(store, settings), [(pair.older.id, pair.newer.id, 0.95) for pair in made])

    check(store, made, wanted_of_a_process)


@dataclass
class Relation:
    newer: Memory
    action: str
    older: Memory


@dataclass
class Relating:
    relations: list[Relation]

    def relate(self, memories: Sequence[Memory], new: frozenset[int]) -> list[Relation]:
        return self.relations


@pytest.mark.parametrize("action", ["supersedes", "corrects", "resolves", "same"])
def test_a_model_that_compares_memories(store: Store, settings: Settings, pairs: Pairs, action: str) -> None:
    with store.transaction() as tx:
        project = ensure_project(tx, "/work/demo", "demo")
    made = list(pairs(scope=Scope.PROJECT, project_id=project.id))

    relations = [Relation(pair.newer, action, pair.older) for pair in made]
    reconcile(Context(store, settings, reconciling=Relating(relations)))

    check(store, made, without_contradictions if action == "same" else wanted_of_a_process)


@pytest.mark.parametrize("action", ["supersedes", "corrects", "resolves"])
def test_what_a_model_reads_in_a_session(store: Store, pairs: Pairs, action: str) -> None:
    with store.transaction() as tx:
        project = ensure_project(tx, "/work/demo", "demo")
    made = list(pairs(scope=Scope.PROJECT, project_id=project.id))
    candidates = [
        Candidate(
            kind=Kind.DECISION,
            summary=NEW,
            content=NEW,
            evidence=("e",),
            turn_keys=("t",),
            voice=pair.newer.voice,
            suspect=pair.newer.suspect,
            action=action,
            target=pair.older.episode_id,
            rests_on_user=pair.newer.voice in (Voice.USER, Voice.CHOSEN),
        )
        for pair in made
    ]
    with store.transaction() as tx:
        apply_actions(tx, candidates, lambda place: made[place].newer, lambda _: [Evidence("e", "s2")], project.id)

    check(store, made, wanted_of_a_process)


def test_what_is_withdrawn_in_a_session(store: Store, keep: Keep) -> None:
    with store.transaction() as tx:
        project = ensure_project(tx, "/work/demo", "demo")
    made = {
        (kept, is_users): keep(OLD, scope=Scope.PROJECT, project_id=project.id, **KEPT[kept])
        for kept, is_users in product(KEPT, (True, False))
    }
    candidates = [
        Candidate(
            Kind.DECISION,
            OLD,
            OLD,
            ("e",),
            ("t",),
            action="retracts",
            target=older.episode_id,
            rests_on_user=is_users,
            said_at_ms=older.holds_from_ms,
        )
        for (_, is_users), older in made.items()
    ]
    with store.transaction() as tx:
        apply_actions(tx, candidates, lambda _: None, lambda _: [Evidence("e", "s2")], project.id)

    assert {key: outcome(store, older) for key, older in made.items()} == {
        (kept, is_users): ENDS if kept in OTHERS or (kept in USERS and is_users) else STAYS for kept, is_users in made
    }


def test_a_model_that_distills_again(store: Store, pairs: Pairs) -> None:
    made = list(pairs())

    with store.transaction() as tx:
        run_id = add_run(tx, "extract")
        for pair in made:
            replace_memories(tx, [pair.older], [pair.newer], "a model", run_id)

    # What the user did not say is archived if the model does not keep it.
    check(store, made, lambda kept, later: ENDS if kept in OTHERS else without_contradictions(kept, later))


def test_memories_that_say_the_same_word_for_word(store: Store, settings: Settings, keep: Keep) -> None:
    """One of the two ends, but never the one of more authority, and never in a memory that was judged wrong."""
    authority = {
        "said by the assistant": set(),
        "of an unknown voice": set(),
        "said by the user": {"user"},
        "chosen by the user": {"user"},
        "saved by an agent": {"saved"},
        "saved by the user": {"user", "saved"},
        "pinned, said by the assistant": {"saved", "pinned"},
        "pinned, said by the user": {"user", "saved", "pinned"},
        "pinned, saved by an agent": {"saved", "pinned"},
    }
    made = {}
    for number, (first, second, is_wrong) in enumerate(product(KEPT, KEPT, (False, True))):
        text = f"The shop closes its books on day {number}"
        made[first, second, is_wrong] = (
            keep(text, content=text, session_id="s1", is_lowered=is_wrong, **KEPT[first]),
            keep(text, content=text, session_id="s2", **KEPT[second]),
        )

    archive_exact_duplicates(Context(store, settings))

    for (first, second, is_wrong), both in made.items():
        ended = {kept for kept, memory in zip((first, second), both, strict=True) if outcome(store, memory) == ENDS}
        if is_wrong:
            assert ended == ({second} if not authority[second] else set()), (first, second)
            continue
        may_end = {
            one
            for one, other in ((first, second), (second, first))
            if "pinned" not in authority[one] and authority[one] <= authority[other]
        }
        assert ended <= may_end, (first, second)
        assert bool(ended) == bool(may_end), (first, second)


def test_memories_that_say_nearly_the_same(store: Store, settings: Settings, pairs: Pairs) -> None:
    made = list(pairs(OLD, f"{OLD} and a runner"))
    similar = [(pair.older.id, pair.newer.id, 0.99) for pair in made]
    joined = {("said by the user", "the user"), ("chosen by the user", "the user's choice")} | {
        (kept, "the assistant") for kept in OTHERS
    }

    merge_near_duplicates(Context(store, settings, similar=lambda *_: iter(similar)))

    assert {(p.kept, p.later) for p in made if outcome(store, p.newer) == ENDS} == joined
    assert {(p.kept, p.later) for p in made if _summary(store, p.older) != OLD} == joined


@pytest.mark.parametrize("actor", [Actor.AGENT, Actor.USER])
@pytest.mark.parametrize("way", ["save", "correct"])
@pytest.mark.parametrize("kept", KEPT)
def test_saving_and_correcting(store: Store, keep: Keep, kept: str, way: str, actor: Actor) -> None:
    older = keep(OLD, **KEPT[kept])

    if way == "save":
        made = save_memory(store, NEW, redact, actor=actor, scope=Scope.GLOBAL, supersedes=older.episode_id)
    else:
        made = correct_memory(store, older.episode_id, NEW, "it moved", redact, actor=actor).made

    assert outcome(store, older) == (ENDS if actor is Actor.USER else wanted_of_an_agent(kept))
    is_beside = outcome(store, older) == OPEN
    assert (made.status, made.is_pinned) == (
        Status.PROVISIONAL if is_beside else Status.ACTIVE,
        way == "correct" and actor is Actor.USER and older.is_pinned,
    )


@pytest.mark.parametrize("kept", KEPT)
def test_replacing_and_judging_as_outdated_or_wrong(store: Store, keep: Keep, kept: str) -> None:
    for actor in (Actor.AGENT, Actor.USER):
        may_end = actor is Actor.USER or wanted_of_an_agent(kept) == ENDS
        older, judged, newer = keep(OLD, **KEPT[kept]), keep(OLD, **KEPT[kept]), keep(NEW, voice=Voice.AGENT)
        lowered = keep(OLD, **KEPT[kept])
        for change in (
            lambda: supersede_memory(store, older.episode_id, newer.episode_id, actor=actor),  # noqa: B023
            lambda: judge_memory(store, judged.episode_id, Judgement.OUTDATED, "so", redact, actor=actor),  # noqa: B023
            lambda: judge_memory(store, lowered.episode_id, Judgement.WRONG, "so", redact, actor=actor),  # noqa: B023
        ):
            if may_end:
                change()
            else:
                with pytest.raises(BadRequest, match="pinned, saved or said by the user"):
                    change()
        assert [outcome(store, one) for one in (older, judged)] == [ENDS if may_end else STAYS] * 2
        now = find_memory(store, lowered.episode_id)
        assert now is not None
        assert (now.is_lowered, is_in_force(now)) == (may_end, not may_end)
