"""A language model compares the memories of a project: what it says is checked, logged, undone, and asked once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.storing import content_digest
from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.undo import undo_run
from engram.enums import Actor, Source, Status, Voice
from engram.extraction.model.language_model import LanguageModel
from engram.extraction.model.provider import OWN_SERVER_PRICE, Budget, ModelReply, ModelRequest, NotServed, Price
from engram.extraction.model.reconcile import Reconciler
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import open_contradictions
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, all_memories, evidence_of, new_memory_id
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.models.sessions.sessions import ensure_session
from engram.settings import Settings
from engram.system.clock import FixedClock

NOW_MS = 1_780_000_000_000
OLD, NEW = "The session folders are numbered from one", "The session folders are numbered from zero now"


class Comparer:
    """A provider that answers with relations, and keeps what it was asked."""

    model = "comparer"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Callable[[str], Any] = lambda text: []

    @property
    def price(self) -> Price:
        return OWN_SERVER_PRICE

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request.user)
        return ModelReply(text=json.dumps({"memories": self.answer(request.user)}))

    def simplify(self) -> bool:
        return False


class Home:
    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings, self.comparer = store, settings, Comparer()
        self.reconciler = Reconciler(LanguageModel(self.comparer, Budget(store, settings)))
        with store.transaction() as tx:
            self.project = ensure_project(tx, "/work/demo", "demo")

    def keep(self, summary: str, *, day: int, session: str = "", **fields: Any) -> Memory:
        at_ms = NOW_MS + day * 86_400_000
        made = Memory(
            new_memory_id(),
            "decision",
            summary,
            summary,
            session_id=session,
            project_id=self.project.id,
            created_at_ms=at_ms,
            valid_from_ms=at_ms,
            **({"status": Status.PROVISIONAL} | fields),
        )
        with self.store.transaction() as tx:
            if session:
                ensure_session(
                    tx,
                    session,
                    agent="claude-code",
                    project_id=self.project.id,
                    is_global=False,
                    cwd="/work/demo",
                    at_ms=at_ms,
                )
            return add_memory(tx, made, [Evidence(f"{len(all_memories(self.store)):032x}", session)], actor=Actor.MODEL)

    def tidy(self) -> int:
        return consolidate(self.store, self.settings, reconciling=self.reconciler, is_forced=True).run_id

    def says(self, action: str, newer: str = "m2", older: str = "m1") -> None:
        self.comparer.answer = lambda text: [{"memory": newer, "action": action, "target": older}]

    def status(self, memory: Memory) -> str:
        return next(one.status for one in all_memories(self.store) if one.id == memory.id)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    settings = Settings(home=tmp_path / "home")
    settings.places.prepare()
    with open_store(settings.places.memory_db, clock=FixedClock(NOW_MS + 10 * 86_400_000)) as store:
        yield Home(store, settings)


def test_memories_are_told_oldest_first_with_date_kind_and_what_is_new(home: Home) -> None:
    home.keep(NEW, day=2)
    home.keep(OLD, day=1)

    home.tidy()

    assert home.comparer.asked == [
        f"[m1] * 2026-05-29 20:26 decision: {OLD}\n[m2] * 2026-05-30 20:26 decision: {NEW}",
    ]


@pytest.mark.parametrize("action", ["supersedes", "corrects", "resolves"])
def test_the_earlier_one_goes_out_of_force_and_comes_back_with_the_run(home: Home, action: str) -> None:
    old, new = home.keep(OLD, day=1), home.keep(NEW, day=2)
    before = content_digest(home.store)
    home.says(action)

    run = home.tidy()
    assert (home.status(old), home.status(new)) == ("superseded", "provisional")

    undo_run(home.store, home.settings, run, actor=Actor.USER)
    assert content_digest(home.store) == before
    home.tidy()
    assert home.status(old) == "provisional"


def test_what_is_said_twice_is_one_memory_with_both_pieces_of_evidence(home: Home) -> None:
    old, new = home.keep(OLD, day=1, session="s1"), home.keep(f"{OLD}, always", day=2, session="s2")
    home.says("same")

    home.tidy()

    assert (home.status(old), home.status(new)) == ("archived", "active")
    assert len(evidence_of(home.store, new.id)) == 2


@pytest.mark.parametrize(
    ("told", "statuses"),
    [
        ([("m3", "same", "m1"), ("m3", "same", "m2")], ("archived", "archived", "active")),
        ([("m3", "same", "m1"), ("m3", "supersedes", "m2")], ("archived", "superseded", "active")),
        ([("m2", "same", "m1"), ("m3", "supersedes", "m2")], ("archived", "superseded", "provisional")),
        ([("m3", "same", "m1"), ("m1", "same", "m3")], ("archived", "provisional", "active")),
    ],
)
def test_what_absorbed_a_memory_may_absorb_or_end_others_and_be_ended(
    home: Home, told: list[tuple[str, str, str]], statuses: tuple[str, ...]
) -> None:
    kept = [home.keep(f"{OLD}, as said {day} times", day=day, session=f"s{day}") for day in (1, 2, 3)]
    home.comparer.answer = lambda text: [{"memory": new, "action": what, "target": old} for new, what, old in told]

    home.tidy()

    assert tuple(home.status(memory) for memory in kept) == statuses


@pytest.mark.parametrize(
    ("newer", "older"), [("m1", "m2"), ("m9", "m1"), ("m2", "m2"), ("", "m1"), ("m2", "ep_000000000000")]
)
def test_an_earlier_one_an_unknown_one_and_itself_end_nothing(home: Home, newer: str, older: str) -> None:
    kept = [home.keep(OLD, day=1), home.keep(NEW, day=2)]
    home.says("supersedes", newer, older)

    home.tidy()

    assert [home.status(one) for one in kept] == ["provisional", "provisional"]


def test_memories_that_share_no_subject_end_nothing(home: Home) -> None:
    old, _ = home.keep(OLD, day=1), home.keep("Buttons are green", day=2)
    home.says("supersedes")

    home.tidy()

    assert home.status(old) == "provisional"


@pytest.mark.parametrize(
    "fields", [{"is_pinned": True}, {"source": Source.MANUAL}, {"voice": Voice.USER, "status": Status.ACTIVE}]
)
def test_a_persons_own_memory_stays_and_a_contradiction_waits(home: Home, fields: dict[str, Any]) -> None:
    old, new = home.keep(OLD, day=1, **fields), home.keep(NEW, day=2)
    home.says("supersedes")

    home.tidy()

    assert home.status(old) == old.status
    assert [(one.older_id, one.newer_id) for one in open_contradictions(home.store)] == [
        (old.episode_id, new.episode_id)
    ]


def test_where_the_model_cannot_be_asked_everything_else_is_done(home: Home) -> None:
    kept = [home.keep(OLD, day=1), home.keep(NEW, day=2)]

    def refuse(text: str) -> Any:
        raise NotServed("out of order")

    home.comparer.answer = refuse

    assert home.tidy()
    assert [home.status(one) for one in kept] == ["provisional", "provisional"]


def test_nothing_is_asked_where_nothing_is_new(home: Home) -> None:
    home.keep(OLD, day=1)
    home.keep(NEW, day=2)
    compare = lambda least, changed: iter(())  # noqa: E731
    run = lambda: consolidate(  # noqa: E731
        home.store, home.settings, similar=compare, reconciling=home.reconciler
    )

    run()
    home.store.clock.advance(home.settings.consolidate_seconds + 1)  # type: ignore[attr-defined]
    run()

    assert len(home.comparer.asked) == 1
