"""What earlier versions kept as rules is judged again once: with a preview, history, undo and nothing said to a hub."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from branch_sessions import Workshop, bash, edit
from rollouts import Rollout
from transcript_lines import say

from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.graduation import NOTE, note_line
from engram.consolidation.rejudge import BY_PROGRAM, NO_LONGER_KEPT, Picked, picked_memories
from engram.consolidation.undo import undo_run
from engram.enums import Actor, Importance, Judgement, Kind, Scope, Source, Status, Voice
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.memories.correct import judge_memory
from engram.memories.save import edit_memory
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Evidence, Memory, find_memory
from engram.models.projects.projects import ensure_project
from engram.models.search.fulltext import search_passages
from engram.models.sessions.reading_progress import unknown_elements
from engram.models.sessions.recent_work import user_texts_elsewhere
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import load_turn, turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts import message_elements, speaker
from engram.transcripts.codex import turn_builder as codex_turns

Keep = Callable[..., Memory]
MOMENT = "Please don't change the migration, just explain it."
RULE = "Never push to main."
#: Fields of a rule as an earlier version of the local extractor kept it.
EARLIER: dict[str, Any] = {
    "kind": Kind.PREFERENCE,
    "voice": Voice.USER,
    "source": Source.AUTO,
    "extractor": "local-2",
    "scope": Scope.PROJECT,
    "status": Status.ACTIVE,
    "importance": Importance.HIGH,
}


@pytest.fixture
def keep_rule(store: Store, keep: Keep) -> Callable[..., Memory]:
    """Keeps a rule as an earlier version of the local extractor did."""

    def make(summary: str, **fields: object) -> Memory:
        return keep(summary, **EARLIER | fields)

    return make


@pytest.fixture
def project_id(store: Store) -> int:
    with store.transaction() as tx:
        return ensure_project(tx, "/dev/lab/harbor", "harbor", "/dev/lab/harbor").id


def now(store: Store, memory: Memory) -> Memory:
    found = find_memory(store, memory.episode_id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "summary",
    [
        MOMENT,
        "For this PR, never touch the tests.",
        "My boss thinks we should never use ORMs",
        "Stop apologizing and fix the test.",
        "Should we always use tabs?",
        "I want the button in red",
    ],
)
def test_what_is_not_a_rule_is_archived_with_the_reason_and_comes_back(
    store: Store, settings: Settings, keep_rule: Callable[..., Memory], summary: str
) -> None:
    old = keep_rule(summary)

    preview = consolidate(store, settings, is_dry=True)
    assert now(store, old) == old
    report = consolidate(store, settings, is_forced=True)

    assert now(store, old).status is Status.ARCHIVED
    assert any(old.episode_id in line for line in preview.lines)
    last = history_of(store, old.episode_id)[-1]
    assert (last.actor, last.reason.startswith("not a rule of yours: ")) == (Actor.TIDYING, True)

    undo_run(store, settings, report.run_id, actor=Actor.USER)
    consolidate(store, settings, is_forced=True)
    assert now(store, old).status is Status.ACTIVE


def test_what_is_a_rule_stays_and_it_is_judged_once(
    store: Store, settings: Settings, keep_rule: Callable[..., Memory]
) -> None:
    kept = keep_rule(RULE)
    consolidate(store, settings, is_forced=True)
    late = keep_rule(MOMENT)
    consolidate(store, settings, is_forced=True)

    assert now(store, kept).status is now(store, late).status is Status.ACTIVE


@pytest.mark.parametrize("how", ["edited", "pinned", "helpful", "saved", "model", "others", "today"])
def test_what_a_person_settled_and_what_others_made_stays(
    store: Store, settings: Settings, keep_rule: Callable[..., Memory], how: str
) -> None:
    fields: dict[str, dict[str, object]] = {
        "pinned": {"is_pinned": True},
        "saved": {"source": Source.MANUAL},
        "model": {"extractor": "claude-1"},
        "others": {"origin": "anna"},
        "today": {"extractor": "local-4"},
    }
    old = keep_rule(MOMENT, **fields.get(how, {}))
    if how == "edited":
        edit_memory(store, old.episode_id, redact, content="words of mine", actor=Actor.USER)
    elif how == "helpful":
        judge_memory(store, old.episode_id, Judgement.HELPFUL, "it helped", redact, actor=Actor.USER)

    consolidate(store, settings, is_forced=True)

    assert now(store, old).status is Status.ACTIVE


@pytest.mark.parametrize(
    ("summary", "scope"),
    [
        ("Always write the failing test before the fix.", Scope.PROJECT),
        ("Never explain a commit in its subject.", Scope.PROJECT),
        ("Always use pnpm in all my projects.", Scope.GLOBAL),
    ],
)
def test_a_word_such_as_test_no_longer_makes_anything_global(
    store: Store, settings: Settings, keep_rule: Callable[..., Memory], project_id: int, summary: str, scope: Scope
) -> None:
    old = keep_rule(summary, scope=Scope.GLOBAL, project_id=project_id)

    report = consolidate(store, settings, is_forced=True)

    assert (now(store, old).scope, now(store, old).status) == (scope, Status.ACTIVE)
    if scope is Scope.PROJECT:
        undo_run(store, settings, report.run_id, actor=Actor.USER)
    assert now(store, old).scope is Scope.GLOBAL


def test_what_a_model_made_global_without_the_users_words_goes_to_its_project(
    store: Store, settings: Settings, keep_rule: Callable[..., Memory], project_id: int
) -> None:
    fields: dict[str, Any] = {
        "extractor": "claude-1",
        "scope": Scope.GLOBAL,
        "kind": Kind.FACT,
        "voice": Voice.ASSISTANT,
    }
    old = keep_rule("Tests of asyncio need a loop of their own", **fields, project_id=project_id)
    of_a_root_folder = keep_rule("Tests of trio need none", **fields)

    consolidate(store, settings, is_forced=True)

    assert now(store, old).scope is Scope.PROJECT
    assert now(store, of_a_root_folder).scope is Scope.GLOBAL


def test_the_line_of_memory_md_says_where_the_rule_holds(
    store: Store, settings: Settings, keep_rule: Callable[..., Memory], project_id: int
) -> None:
    old = keep_rule(RULE, scope=Scope.GLOBAL, project_id=project_id, graduated_at_ms=1)
    path = settings.places.notes / NOTE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# Memory\n\n## 2026-05\n{note_line(old)}\n")

    consolidate(store, settings, is_forced=True)

    assert note_line(now(store, old)) in path.read_text()
    assert "every project" not in path.read_text()


def test_the_prompt_decides_where_it_is_stored(workshop: Workshop) -> None:
    kept = []
    for prompt, summary in (
        ("Always use tabs. No wait, use spaces.", "Always use tabs."),
        ("Never push on Fridays.", "Never push on Fridays."),
        ("Always squash. In this branch only, never rebase.", "In this branch only, never rebase."),
        ("Never use mocks.", "Never use mocks."),
    ):
        workshop.work("main", prompt)
        kept.append(workshop.learn(summary, **EARLIER))
    workshop.work("main", "I take back the rule about Fridays.")

    consolidate(workshop.store, workshop.settings, is_forced=True)

    statuses = [now(workshop.store, one).status for one in kept]
    assert statuses == [Status.ARCHIVED, Status.ARCHIVED, Status.ARCHIVED, Status.ACTIVE]


def test_an_order_of_two_sessions_stays(workshop: Workshop) -> None:
    order = "Please don't wrap long lines in Markdown."
    workshop.work("main", order, session="one")
    workshop.work("main", order, session="two")
    twice = workshop.learn(order, ("one", "two"), **EARLIER)
    workshop.work("main", "Use tabs instead of spaces.", session="three")
    once = workshop.learn("Use tabs instead of spaces.", ("three",), **EARLIER)

    consolidate(workshop.store, workshop.settings, is_forced=True)

    assert now(workshop.store, twice).status is Status.ACTIVE
    assert now(workshop.store, once).status is Status.ARCHIVED


@pytest.mark.parametrize("name", ["handoff", "side-note", "dictated.text"])
def test_words_in_an_element_become_a_prompt_once_it_is_known_for_a_persons(
    store: Store, settings: Settings, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    session_id = workshop.work("main", f"<{name}>Never push to the quetzal branch.</{name}>")
    session = find_session(store, session_id)
    assert session is not None

    def told() -> tuple[list[str], list[str]]:
        consolidate(store, settings, is_forced=True)
        turns = [stored.turn for stored in turns_of_session(store, session.id)]
        return [turn.users_prompt for turn in turns], list(unknown_elements(store))

    assert told() == ([""], [name])
    monkeypatch.setitem(message_elements._USES, name, message_elements._Use.PERSON)
    preview = consolidate(store, settings, is_forced=True, is_dry=True)
    assert f"treat 1 text in <{name}> as a person's words" in "\n".join(preview.lines)
    assert list(unknown_elements(store)) == [name]
    assert told() == (["Never push to the quetzal branch."], [])
    assert turns_of_session(store, session.id, only_due=True)
    assert user_texts_elsewhere(store, [hit for hit, _ in search_passages(store, [("quetzal",)], 5)], 0)


@pytest.mark.parametrize(
    ("fields", "text", "is_kept"),
    [
        ({}, RULE, True),
        ({"entrypoint": "claude-desktop", "promptSource": "sdk", "origin": {"kind": "human"}}, RULE, True),
        ({"promptSource": "sdk", "entrypoint": "sdk-cli"}, RULE, False),
        ({"entrypoint": "sdk-ts"}, RULE, False),
        ({"origin": {"kind": "peer"}}, RULE, False),
        ({}, f'<channel source="chat">{RULE}</channel>', False),
    ],
)
def test_a_rule_that_a_program_sent_is_judged_by_its_line(
    store: Store,
    settings: Settings,
    keep_rule: Callable[..., Memory],
    fields: dict[str, Any],
    text: str,
    is_kept: bool,
) -> None:
    path = settings.projects_folder / "-dev-lab-harbor" / "44444444-2222-4333-8444-555555555555.jsonl"
    entry = say(path, "user", RULE, cwd="/dev/lab/harbor")
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    turn = load_turn(store, entry)
    assert turn is not None
    old = keep_rule(RULE, evidence=[Evidence(entry, path.stem, turn.id)])
    # The line as it was written; an earlier version read its words alone.
    line = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(line | fields) + "\n", encoding="utf-8")
    with store.transaction() as tx:
        block = tables.TextBlock
        tx.run(block.update(length=path.stat().st_size, text=text).where(block.turn == turn.id))

    consolidate(store, settings, is_forced=True)

    assert now(store, old).status is (Status.ACTIVE if is_kept else Status.ARCHIVED)
    reasons = [change.reason for change in history_of(store, old.episode_id)]
    assert any(BY_PROGRAM in reason for reason in reasons) is not is_kept


@pytest.mark.parametrize(("source", "is_kept"), [("cli", True), ("vscode", True), ("exec", False), ("mcp", False)])
def test_a_rule_of_codex_is_judged_by_the_head_of_its_rollout(
    store: Store,
    settings: Settings,
    keep_rule: Callable[..., Memory],
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    is_kept: bool,
) -> None:
    rollout = Rollout(settings.codex_folder).head(source=source)
    rollout.user(RULE)
    rollout.says("I will.")
    with monkeypatch.context() as earlier:
        earlier.setattr(codex_turns, "codex_speaker", lambda head: speaker.Speaker.PERSON)
        ingest_path(store, rollout.path, settings=settings, redact=redact, close=True)
    (turn,) = [one for one in turns_of_session(store, 1) if one.turn.users_prompt]
    old = keep_rule(RULE, evidence=[Evidence(turn.turn.users_texts[0].uuid, rollout.session, turn.id)])

    consolidate(store, settings, is_forced=True)

    assert now(store, old).status is (Status.ACTIVE if is_kept else Status.ARCHIVED)


#: Fields of a memory that an earlier version picked from what the assistant said.
PICKED: dict[str, Any] = {
    "kind": Kind.FACT,
    "voice": Voice.ASSISTANT,
    "source": Source.AUTO,
    "extractor": "local-3",
    "status": Status.ACTIVE,
}
FINDING = "The cache was stale because its key left out the branch."


def pick(workshop: Workshop, summary: str = FINDING, **fields: Any) -> Memory:
    """Keep a memory of a session as an earlier version did."""
    workshop.work("main", "why is the cache stale?", FINDING)
    return workshop.learn(summary, **PICKED | fields)


def test_what_rules_picked_is_archived_in_one_run_that_can_be_undone(workshop: Workshop) -> None:
    store, settings = workshop.store, workshop.settings
    old = [pick(workshop, f"{FINDING} Part {number}.") for number in "abc"]

    preview = consolidate(store, settings, is_dry=True)
    assert {now(store, memory).status for memory in old} == {Status.ACTIVE}
    assert sum(NO_LONGER_KEPT in line for line in preview.lines) == len(old)

    consolidate(store, settings, is_forced=True)

    picked = picked_memories(store)
    assert picked is not None
    assert (picked.waiting, picked.archived) == (0, len(old))
    assert {now(store, memory).status for memory in old} == {Status.ARCHIVED}
    last = [history_of(store, memory.episode_id)[-1] for memory in old]
    assert {(change.run_id, change.actor) for change in last} == {(picked.run_id, Actor.TIDYING)}

    undo_run(store, settings, picked.run_id, actor=Actor.USER)
    consolidate(store, settings, is_forced=True)
    assert {now(store, memory).status for memory in old} == {Status.ACTIVE}


def test_a_run_of_the_workers_counts_them_first_so_that_they_can_be_seen(workshop: Workshop) -> None:
    store, settings = workshop.store, replace(workshop.settings, consolidate_seconds=0)
    old = pick(workshop)

    consolidate(store, settings)
    assert picked_memories(store) == Picked(waiting=1)
    assert now(store, old).status is Status.ACTIVE

    consolidate(store, settings)
    assert now(store, old).status is Status.ARCHIVED


@pytest.mark.parametrize("how", ["edited", "pinned", "helpful", "opened", "graduated", "model", "others", "today"])
def test_what_a_person_used_or_settled_stays(workshop: Workshop, how: str) -> None:
    store = workshop.store
    fields: dict[str, dict[str, object]] = {
        "pinned": {"is_pinned": True},
        "opened": {"access_count": 1},
        "graduated": {"graduated_at_ms": 1},
        "model": {"extractor": "claude-1"},
        "others": {"origin": "anna"},
        "today": {"extractor": LocalExtractor.name},
    }
    old = pick(workshop, **fields.get(how, {}))
    if how == "edited":
        edit_memory(store, old.episode_id, redact, content="words of mine", actor=Actor.USER)
    elif how == "helpful":
        judge_memory(store, old.episode_id, Judgement.HELPFUL, "it helped", redact, actor=Actor.USER)

    consolidate(store, workshop.settings, is_forced=True)

    assert now(store, old).status is Status.ACTIVE
    assert picked_memories(store) is None


def test_what_would_be_kept_again_stays_and_a_session_without_turns_is_left_alone(
    workshop: Workshop, keep: Keep
) -> None:
    failed, passed = bash("pytest tests", "E  KeyError: cache", failed=True), bash("pytest tests", "ok")
    workshop.work("main", "mend it", failed, FINDING, edit("cache.py"), passed, "Done.", session="two")
    session = find_session(workshop.store, workshop.sessions["two"])
    assert session is not None
    turn = turns_of_session(workshop.store, session.id)[-1]
    cause = next(said for said in turn.turn.said if said.text == FINDING)
    evidence = [Evidence(cause.uuid, session.session_id, turn.id)]
    again = keep(FINDING, **PICKED, session_id=session.session_id, evidence=evidence)
    alone = keep("The sweeper is slow", **PICKED, session_id="gone")

    consolidate(workshop.store, workshop.settings, is_forced=True)

    assert now(workshop.store, again).status is now(workshop.store, alone).status is Status.ACTIVE
