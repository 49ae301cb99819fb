"""What became of each prompt: kept with the memories that were considered, bounded, and gone with what is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.storing import join_projects, write_turn
from engram.enums import Actor, Channel, Verdict
from engram.forgetting.forget import forget_memory
from engram.forgetting.purge import plan_named, purge
from engram.forgetting.whole_project import forget_project
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.projects import projects
from engram.models.sessions import prompt_outcomes
from engram.models.sessions.prompt_outcomes import Candidate, Outcome
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session
from engram.paths import Home
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn

AT_MS = 1_780_000_000_000
UUID = "11111111-1111-4111-8111-111111111111"


def keep(store: Store, summary: str = "The watcher holds its lock by flock", **fields: object) -> Memory:
    memory = Memory(new_memory_id(), "fact", summary, summary, **fields)  # type: ignore[arg-type]
    with store.transaction() as tx:
        return add_memory(tx, memory, [Evidence(UUID)], actor=Actor.MODEL)


def record(store: Store, *memories: Memory, session_id: str = "s1", at_ms: int = AT_MS, **fields: object) -> None:
    considered = tuple(
        Candidate(
            place=place,
            episode_id=memory.episode_id,
            verdict=Verdict.SHOWN if place == 0 else Verdict.BELOW_FLOOR,
            score=0.5 - place / 10,
            floor=0.18,
            features={"cosine": 0.41, "shared": 0.25},
        )
        for place, memory in enumerate(memories)
    )
    outcome = {
        "session_id": session_id,
        "channel": Channel.PROMPT,
        "verdict": Verdict.SHOWN if considered else Verdict.NOTHING_NEAR,
        "at_ms": at_ms,
        "prompt_key": "p1",
        "considered": considered,
    }
    with store.transaction() as tx:
        prompt_outcomes.add_outcomes(tx, [Outcome(**outcome | fields)])  # type: ignore[arg-type]


def test_an_outcome_is_read_as_it_was_stored(store: Store) -> None:
    first, second = keep(store), keep(store, "A PID file goes stale")
    record(store, first, second, digest="h-1", project_id=7, candidates=20, score=0.5, floor=0.18, duration_ms=12)

    (stored,) = prompt_outcomes.outcomes_of_session(store, "s1")

    assert (stored.channel, stored.verdict, stored.prompt_key, stored.digest) == ("prompt", "shown", "p1", "h-1")
    assert (stored.project_id, stored.candidates, stored.score, stored.floor) == (7, 20, 0.5, 0.18)
    assert (stored.at_ms, stored.duration_ms, stored.is_text_only) == (AT_MS, 12, False)
    assert [(candidate.episode_id, candidate.verdict) for candidate in stored.considered] == [
        (first.episode_id, Verdict.SHOWN),
        (second.episode_id, Verdict.BELOW_FLOOR),
    ]
    assert stored.considered[0].features == {"cosine": 0.41, "shared": 0.25}


def test_of_a_memory_every_moment_is_told_with_what_became_of_it_alone(store: Store) -> None:
    first, second = keep(store), keep(store, "A PID file goes stale")
    record(store, first, second)
    record(store, second, session_id="s2", at_ms=AT_MS + 1)

    moments = prompt_outcomes.outcomes_of_memory(store, second.episode_id)

    assert [(moment.session_id, moment.considered[0].verdict) for moment in moments] == [
        ("s2", Verdict.SHOWN),
        ("s1", Verdict.BELOW_FLOOR),
    ]
    assert all(len(moment.considered) == 1 for moment in moments)


def test_outcomes_are_listed_and_counted_by_time_project_and_channel(store: Store) -> None:
    record(store, project_id=1)
    record(store, project_id=2, at_ms=AT_MS + 1, channel=Channel.TOOL)
    record(store, project_id=1, at_ms=AT_MS + 2, verdict=Verdict.TOO_SHORT)

    assert [outcome.at_ms - AT_MS for outcome in prompt_outcomes.list_outcomes(store)] == [2, 1, 0]
    assert [outcome.at_ms - AT_MS for outcome in prompt_outcomes.list_outcomes(store, project_id=1, limit=1)] == [2]
    assert [outcome.channel for outcome in prompt_outcomes.list_outcomes(store, channels=[Channel.TOOL])] == [
        Channel.TOOL
    ]
    assert prompt_outcomes.count_verdicts(store, "s1") == {
        (Channel.PROMPT, Verdict.NOTHING_NEAR): 1,
        (Channel.TOOL, Verdict.NOTHING_NEAR): 1,
        (Channel.PROMPT, Verdict.TOO_SHORT): 1,
    }


def test_what_waited_becomes_shown_and_the_memories_that_were_not_chosen_stay_as_they_are(store: Store) -> None:
    first, second = keep(store), keep(store, "A PID file goes stale")
    record(store, first, second)
    record(store, first, prompt_key="p2")

    with store.transaction() as tx:
        assert prompt_outcomes.change_verdicts(tx, "s1", Verdict.SHOWN, Verdict.TOO_LATE, prompt_key="p1") == 1

    late, other = prompt_outcomes.outcomes_of_session(store, "s1")
    assert [candidate.verdict for candidate in late.considered] == [Verdict.TOO_LATE, Verdict.BELOW_FLOOR]
    assert (late.verdict, other.verdict) == (Verdict.TOO_LATE, Verdict.SHOWN)


def test_a_channel_that_fills_the_table_leaves_the_others_alone(store: Store) -> None:
    memory = keep(store)
    record(store, memory)
    for number in range(5):
        record(store, memory, at_ms=AT_MS + number, channel=Channel.TOOL)

    assert prompt_outcomes.has_old_outcomes(store, 0, max_outcomes=3)
    with store.transaction() as tx:
        assert prompt_outcomes.drop_old_outcomes(tx, 0, max_outcomes=3) == 2

    kept = prompt_outcomes.list_outcomes(store)
    assert [(outcome.channel, outcome.at_ms - AT_MS) for outcome in kept] == [
        ("tool", 4),
        ("tool", 3),
        ("tool", 2),
        ("prompt", 0),
    ]
    assert not prompt_outcomes.has_old_outcomes(store, 0, max_outcomes=3)
    assert len(store.fetch(tables.OutcomeCandidate.select())) == 4


def test_what_is_older_than_a_time_goes_with_its_memories(store: Store) -> None:
    record(store, keep(store))
    record(store, at_ms=AT_MS + 10)

    assert prompt_outcomes.has_old_outcomes(store, AT_MS + 1)
    with store.transaction() as tx:
        prompt_outcomes.drop_old_outcomes(tx, AT_MS + 1)

    assert [outcome.at_ms for outcome in prompt_outcomes.list_outcomes(store)] == [AT_MS + 10]
    assert store.fetch(tables.OutcomeCandidate.select()) == []


def test_a_memory_that_was_forgotten_before_the_record_was_stored_is_not_named(store: Store) -> None:
    forgotten = Memory("ep_0123456789ab", "fact", "gone", "gone")
    record(store, forgotten, keep(store))

    (stored,) = prompt_outcomes.outcomes_of_session(store, "s1")

    assert forgotten.episode_id not in [candidate.episode_id for candidate in stored.considered]


@pytest.mark.parametrize("way", ["forget", "purge"])
def test_a_memory_that_goes_leaves_no_mention(store: Store, tmp_path: Path, way: str) -> None:
    places = Home(tmp_path / "home")
    places.prepare()
    gone, stays = keep(store, status="archived"), keep(store, "A PID file goes stale")
    record(store, gone, stays)

    if way == "forget":
        forget_memory(store, places, gone.episode_id, actor=Actor.USER)
    else:
        purge(store, plan_named(store, [gone.episode_id]), actor=Actor.USER)

    (stored,) = prompt_outcomes.outcomes_of_session(store, "s1")
    assert [candidate.episode_id for candidate in stored.considered] == [stays.episode_id]
    assert prompt_outcomes.outcomes_of_memory(store, gone.episode_id) == []


@pytest.mark.parametrize("also_source", [False, True])
def test_with_a_prompts_words_goes_what_became_of_it_and_no_more(
    store: Store, tmp_path: Path, also_source: bool
) -> None:
    places = Home(tmp_path / "home")
    places.prepare()
    with store.transaction() as tx:
        session = ensure_session(tx, "s1", agent="claude-code", project_id=None, is_global=False, cwd="/x", at_ms=AT_MS)
        transcript = ensure_transcript(tx, Path("/x/s1.jsonl"), session.id)
        turn = Turn(
            "k1",
            "s1",
            Opening.PROMPT,
            (TextBlock(UUID, Role.USER, "Why a flock?"),),
            started_at_ms=AT_MS,
            ended_at_ms=AT_MS + 60_000,
            entries=(EntryRef(UUID, 0, 9, 1),),
        )
        write_turn(tx, turn, session, transcript)
    memory = keep(store)
    record(store)
    record(store, at_ms=AT_MS + 30_000, channel=Channel.TOOL)
    record(store, at_ms=AT_MS + 200_000)
    record(store, session_id="s2")

    forget_memory(store, places, memory.episode_id, actor=Actor.USER, also_source=also_source)

    left = [(outcome.session_id, outcome.at_ms - AT_MS) for outcome in prompt_outcomes.list_outcomes(store)]
    assert left == [("s1", 200_000), ("s2", 0)]


def test_with_a_project_go_its_sessions_outcomes_and_those_asked_in_it(store: Store, tmp_path: Path) -> None:
    places = Home(tmp_path / "home")
    places.prepare()
    with store.transaction() as tx:
        project = projects.ensure_project(tx, "/dev/lab/proj", "proj", "/dev/lab/proj")
        ensure_session(tx, "s1", agent="claude-code", project_id=project.id, is_global=False, cwd="/x", at_ms=AT_MS)
    record(store)
    record(store, session_id="never-read", project_id=project.id)
    record(store, session_id="s2", project_id=project.id + 1)

    forget_project(store, places, project, actor=Actor.USER)

    assert [outcome.session_id for outcome in prompt_outcomes.list_outcomes(store)] == ["s2"]


def test_a_project_that_is_joined_to_another_takes_its_outcomes_along(store: Store) -> None:
    with store.transaction() as tx:
        old, new = (projects.ensure_project(tx, path, path[1:], path) for path in ("/old", "/new"))
    record(store, project_id=old.id)

    join_projects(store, new.id, [old.id], actor=Actor.TIDYING)

    assert [outcome.project_id for outcome in prompt_outcomes.list_outcomes(store)] == [new.id]
