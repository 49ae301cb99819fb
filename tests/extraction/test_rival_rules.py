"""Two rules that name rivals are never both believed silently: the user decides, unless they say what was replaced."""

from __future__ import annotations

import pytest
from branch_sessions import Workshop

from engram.consolidation.consolidation_run import consolidate, join_waiting
from engram.enums import Actor, Scope, Status
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.memories.correct import keep_both, keep_one
from engram.memories.save import pin_memory, save_memory
from engram.models.memories.judgements import open_contradictions
from engram.models.memories.memory_records import Memory, all_memories, find_memory
from engram.recollection.session_briefing import build_briefing
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.text.replacements import rivals_in


def say(workshop: Workshop, session: str, prompt: str) -> None:
    """A session with one prompt is read, and its rules are joined with the earlier ones, as the worker does."""
    workshop.work("main", prompt, session=session)
    settings = workshop.settings
    extract_session(
        workshop.store, workshop.sessions[session], extractor=LocalExtractor(), embedder=None, settings=settings
    )
    join_waiting(workshop.store, settings, Searcher(workshop.store, None), None)


def rules(workshop: Workshop) -> list[Memory]:
    return [memory for memory in all_memories(workshop.store) if memory.is_users_rule]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("always use npm", "always use pnpm"),
        ("we use jest", "we use vitest"),
        ("we always use jest for tests", "we use vitest for unit tests"),
        ("In this repo we always use npm.", "Always use pnpm to install packages."),
        ("wir verwenden immer npm", "wir verwenden immer pnpm"),
        ("always use npm in the frontend", "always use pnpm in the frontend"),
        ("we use 4 spaces", "we use tabs"),
    ],
)
def test_the_user_decides_between_two_rules_that_name_rivals(workshop: Workshop, first: str, second: str) -> None:
    say(workshop, "one", first)
    say(workshop, "two", second)

    older, newer = rules(workshop)
    (found,) = open_contradictions(workshop.store)
    assert (found.older_id, found.newer_id) == (older.episode_id, newer.episode_id)
    assert older.is_current
    assert newer.is_current
    told = build_briefing(workshop.store, workshop.settings, project_id=older.project_id)
    assert f"[{newer.episode_id}] 2026-01-01, contradicts {older.episode_id}, undecided: " in told
    assert all("undecided" in line for line in told.splitlines() if line.startswith("- ["))
    assert consolidate(workshop.store, workshop.settings, is_forced=True).lines == ()

    keep_one(workshop.store, newer.episode_id, actor=Actor.USER)

    assert [memory.is_current for memory in rules(workshop)] == [False, True]
    assert "undecided" not in build_briefing(workshop.store, workshop.settings, project_id=older.project_id)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("always use npm for publishing", "we moved to pnpm"),
        ("always use npm for scripts", "we moved to pnpm"),
        ("in web/ we always use npm", "we moved to pnpm"),
        ("always use pnpm", "we switched to npm, so use pnpm"),
        ("always use npm", "we moved to pnpm, so use npm for the docs only"),
        ("always use npm", "We moved to pnpm. It was a mistake, we are on npm again."),
    ],
)
def test_a_rule_stays_if_it_is_about_a_part_or_the_move_is_in_doubt(workshop: Workshop, rule: str, said: str) -> None:
    say(workshop, "one", rule)
    say(workshop, "two", said)

    assert rules(workshop)[0].is_current


def test_a_preview_names_the_contradictions_and_records_none(workshop: Workshop) -> None:
    store = workshop.store
    say(workshop, "one", "always use npm")
    say(workshop, "two", "always use pnpm")
    with store.transaction() as tx:
        tx.run("DELETE FROM contradiction")

    preview = consolidate(store, workshop.settings, is_dry=True).lines

    assert open_contradictions(store) == []
    assert preview == consolidate(store, workshop.settings, is_forced=True).lines
    assert len(preview) == len(open_contradictions(store)) == 1


def test_who_keeps_both_is_not_asked_again(workshop: Workshop) -> None:
    say(workshop, "one", "always use npm")
    say(workshop, "two", "always use pnpm")
    (found,) = open_contradictions(workshop.store)

    keep_both(workshop.store, str(found.id), actor=Actor.USER)
    consolidate(workshop.store, workshop.settings, is_forced=True)

    assert open_contradictions(workshop.store) == []


@pytest.mark.parametrize("way", ["pinned", "saved", "saved later"])
def test_what_was_kept_by_hand_is_asked_about_too(workshop: Workshop, way: str) -> None:
    store = workshop.store
    say(workshop, "one", "always use yarn" if way == "saved" else "we always use npm here")
    (first,) = rules(workshop)
    if way == "pinned":
        pin_memory(store, first.episode_id, actor=Actor.USER)
        say(workshop, "two", "we moved from npm to pnpm")
    else:
        save_memory(store, "Always use pnpm.", redact, project_id=first.project_id, actor=Actor.USER)

    (found,) = open_contradictions(store)
    assert found.older_id == first.episode_id
    kept = find_memory(store, first.episode_id)
    assert kept is not None
    assert kept.is_current


def test_a_rule_for_all_projects_and_one_of_a_project_both_hold(workshop: Workshop) -> None:
    save_memory(workshop.store, "Always use npm.", redact, scope=Scope.GLOBAL, actor=Actor.USER)
    say(workshop, "one", "always use pnpm")

    assert open_contradictions(workshop.store) == []


@pytest.mark.parametrize(
    "said", ["we moved from npm to pnpm", "we moved to pnpm", "switch everything to pnpm", "from now on we use pnpm"]
)
def test_a_rule_ends_if_the_user_says_what_took_its_place(workshop: Workshop, said: str) -> None:
    say(workshop, "one", "we always use npm here")
    say(workshop, "two", said)

    assert rules(workshop)[0].status == Status.ARCHIVED
    assert open_contradictions(workshop.store) == []


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("use npm in the frontend", "use pnpm in the backend"),
        ("always use npm", "use pnpm for scripts"),
        ("use npm for scripts", "always use pnpm"),
        ("use postgres", "use sqlite for tests"),
        ("use postgres", "use postgresql everywhere"),
        ("we use npm and yarn", "use yarn"),
        ("never use npm", "always use pnpm"),
        ("use pytest for unit tests", "use unittest for the migrations"),
        ("always run npm audit before a release", "always use pnpm"),
        ("always use jest for tests", "run vitest in packages/ui"),
        ("don't use npm", "use pnpm"),
        ("use redis for caching", "use postgres"),
        ("In the docs, use npm in examples", "always use pnpm"),
        ("backend: use pip", "always use uv"),
        ("use docker on the CI", "use podman"),
        ("use tabs in Makefiles", "use spaces"),
        ("use black for the background", "use yapf"),
        ("we use jest, but only in legacy", "we use vitest"),
        ("always use requests in scripts", "use httpx in the service"),
        ("use spaces around operators", "use tabs"),
        ("Use TypeScript for new files", "use javascript for configs"),
        ("mock all requests with httpx", "use requests"),
        ("in legacy/ we use moment", "we use dayjs"),
        ("new services use gradle", "we use maven"),
        ("use npm when publishing", "always use pnpm"),
        ("im Frontend verwenden wir npm", "wir verwenden immer pnpm"),
        ("always use tabs in Go", "use spaces"),
        ("use tabs in C", "use spaces in R"),
        ("use maven in service A", "use gradle in service B"),
        ("use npm in app 1", "use pnpm in app 2"),
        ("In Python 2 code use unittest", "use pytest"),
        ("use requests in Python 2.7", "use httpx"),
        ("we use npm (legacy app)", "we use pnpm"),
        ("you can use npm", "use pnpm"),
    ],
)
def test_rules_for_different_parts_of_the_work_do_not_contradict_each_other(older: str, newer: str) -> None:
    assert rivals_in(newer, older) is None
