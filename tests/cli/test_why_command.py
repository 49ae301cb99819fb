"""``engram why``: a session prompt by prompt, a memory, or a prompt that nobody sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from engram.enums import Channel, Status, Verdict
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import all_memories
from engram.models.projects.projects import project_id_of_name
from engram.models.sessions import prompt_outcomes
from engram.models.sessions.prompt_outcomes import Candidate, Outcome
from engram.models.sessions.sessions import list_sessions
from engram.models.sessions.stored_turns import turns_of_session
from engram.recollection.choose_bites import why_not_in_force
from engram.reports.session_report import CANDIDATE_REASONS, REASONS

Run = Callable[..., Result]
RunJson = Callable[..., Any]
PROMPT = "Which test runner do we use here, and how are the tests run?"


def add_outcome(store: Store, episode_id: str = "", session_id: str = "s-unread", **fields: Any) -> None:
    values: dict[str, Any] = {"session_id": session_id, "channel": Channel.PROMPT, "verdict": Verdict.SHOWN, "at_ms": 1}
    if episode_id:
        features = {"cosine": 0.5}
        values["considered"] = (Candidate(0, episode_id, Verdict.SHOWN, 0.4321, 0.18, features),)
    with store.transaction() as tx:
        prompt_outcomes.add_outcomes(tx, [Outcome(**values | fields)])


def some_memory(store: Store) -> str:
    return str(store.fetch_value(tables.Memory.select(tables.Memory.episode_id)))


def test_a_prompt_is_explained_with_its_memories_and_nothing_is_stored(
    filled: Store, run: Run, run_json: RunJson
) -> None:
    shown = run_json("why", "--prompt", PROMPT, "--project", "lantern")
    printed = run("why", "--prompt", PROMPT, "--project", "lantern").stdout

    assert {"verdict", "why", "text", "project", "score", "floor", "memories", "shown", "by", "note"} <= set(shown)
    assert (shown["project"], shown["text"]) == ("lantern", PROMPT)
    assert {"id", "summary", "verdict", "why", "score", "floor", "place", "features"} == set(shown["memories"][0])
    assert shown["memories"][0]["id"] in printed
    assert REASONS[Verdict(shown["memories"][0]["verdict"])] == shown["memories"][0]["why"]
    assert prompt_outcomes.list_outcomes(filled) == []
    assert filled.fetch(tables.Injection.select()) == []


def test_what_decided_is_listed_first_be_it_a_memory_or_a_quotation(filled: Store, run: Run, run_json: RunJson) -> None:
    for prompt in ("Why is the VAT too low on some invoices?", PROMPT, "How do we test the lamp of the lantern?"):
        explained = run_json("why", "--prompt", prompt, "--project", "harbor")
        scores = [memory["score"] for memory in explained["memories"]]

        assert scores == sorted(scores, reverse=True)
    assert "memories and quotations" in run("why", "--prompt", PROMPT, "--project", "harbor").stdout


def test_without_a_project_the_current_folder_counts(filled: Store, run: Run, run_json: RunJson, folder: Path) -> None:
    explained = run_json("why", "--prompt", PROMPT)

    assert "add --project NAME" in run("why", "--prompt", PROMPT).stdout
    assert "add --project NAME" not in run("why", "--prompt", PROMPT, "--project", "lantern").stdout

    assert explained["project"] == ""
    assert run_json("why", "--prompt", PROMPT, "--project", "lantern")["candidates"] > explained["candidates"]


def test_a_secret_in_the_prompt_is_masked(filled: Store, run: Run) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3

    assert secret not in run("why", "--prompt", f"Why does the token {secret} fail in the tests?").stdout


def test_a_session_shows_the_outcome_of_every_prompt(filled: Store, run: Run, run_json: RunJson) -> None:
    session = list_sessions(filled)[0]
    turn = turns_of_session(filled, session.id)[0].turn
    episode_id = some_memory(filled)
    add_outcome(filled, episode_id, session_id=session.session_id, at_ms=turn.started_at_ms, score=0.4321, floor=0.18)

    report = run_json("why", session.session_id[:8])
    printed = run("why", session.session_id[:8]).stdout

    assert report["session"] == session.session_id
    first = next(moment for moment in report["moments"] if moment["prompt"] == turn.prompt)
    assert (first["verdict"], first["outcomes"][0]["memories"][0]["id"]) == ("shown", episode_id)
    assert {moment["verdict"] for moment in report["moments"]} == {"shown", "before engram"}
    assert "relevance 0.43, needed 0.18" in printed
    assert episode_id in printed
    assert "  Engram's memory did not exist yet" in printed.splitlines()


def test_without_a_question_it_explains_the_last_prompt_and_names_the_questions(
    filled: Store, run: Run, run_json: RunJson, folder: Path
) -> None:
    session = list_sessions(filled)[0]
    last = turns_of_session(filled, session.id)[-1].turn.prompt

    told, said = run_json("why"), run("why").stdout

    assert (told["session"], [moment["prompt"] for moment in told["moments"]]) == (session.session_id, [last])
    assert said.startswith("Your last prompt in ")
    assert ", since this folder is not in any known project, and what Claude was shown with it:" in said.splitlines()[0]
    assert f"The whole session: engram why {session.session_id}" in said.splitlines()
    assert "engram why --prompt TEXT" in said


def test_the_last_prompt_of_a_named_project_is_explained(filled: Store, run: Run, run_json: RunJson) -> None:
    session = list_sessions(filled, project_id=project_id_of_name(filled, "lantern"))[0]

    assert run_json("why", "--project", "lantern")["session"] == session.session_id


def test_a_briefing_that_is_recorded_late_is_not_the_last_prompt(
    filled: Store, run_json: RunJson, folder: Path
) -> None:
    session = list_sessions(filled)[0]
    add_outcome(filled, session_id=session.session_id, channel=Channel.START, at_ms=session.last_at_ms + 60_000)

    told = run_json("why")

    last = turns_of_session(filled, session.id)[-1].turn.prompt
    assert [moment["prompt"] for moment in told["moments"]] == [last]


def test_why_all_prompts_before_the_installation_were_silent_is_said_once(filled: Store, run: Run) -> None:
    session = list_sessions(filled)[0]
    prompts = [stored.turn.prompt for stored in turns_of_session(filled, session.id) if stored.turn.prompt]

    said = run("why", session.session_id).stdout

    assert len(prompts) > 1
    assert said.count("Engram's memory did not exist yet") == 1


def test_without_a_session_it_names_the_questions(run: Run, folder: Path) -> None:
    assert "Why a memory was shown, or was not: engram why ID" in run("why", code=1).stdout.splitlines()


def test_a_session_whose_transcript_was_not_read_is_told_too(filled: Store, run: Run) -> None:
    add_outcome(filled, verdict=Verdict.SAME_TOPIC)

    assert "a prompt whose transcript was not read" in run("why", "s-unr").stdout
    assert "there is no session" in run("why", "s-other", code=1).stderr


def test_a_memory_says_when_it_was_considered(filled: Store, run: Run, run_json: RunJson) -> None:
    episode_id = some_memory(filled)
    assert "never shown" in run("why", episode_id).stdout
    add_outcome(filled, episode_id)

    assert run_json("why", episode_id)["shown"] == 1
    assert "s-unread" in run("why", episode_id).stdout
    assert "there is no memory" in run("why", "ep_nothing", code=1).stderr


def test_a_replaced_memory_names_what_replaced_it(filled: Store, run: Run, run_json: RunJson) -> None:
    old = some_memory(filled)
    new = run_json("correct", old, "Use tabs in this project.", "--why", "we moved")["id"]

    assert f"! replaced by {new}: engram expand {new}" in run("why", old).stdout


def test_json_is_printed_where_no_session_is_known(run: Run) -> None:
    run("save", "--global", "Use pnpm, never npm.")

    assert json.loads(run("why", "--json", code=1).stdout) == {"session": "", "moments": []}
    assert "No session is known yet" in run("why", code=1).stdout


def test_it_asks_for_one_thing_at_most(filled: Store, run: Run) -> None:
    assert "can't be combined" in run("why", "ep_1", "--prompt", "x", code=2).stderr


def test_the_report_of_a_session_counts_what_became_of_its_prompts(filled: Store, run: Run, run_json: RunJson) -> None:
    session_id = list_sessions(filled)[0].session_id
    add_outcome(filled, session_id=session_id)
    for _ in range(2):
        add_outcome(filled, session_id=session_id, verdict=Verdict.TOO_SHORT)

    assert {"channel": "prompt", "verdict": "too short", "times": 2} in run_json("sessions", session_id)["verdicts"]
    printed = run("sessions", session_id).stdout
    assert "1 shown, 2 silent (2: it has no topic to search for)" in printed
    assert f"engram why {session_id}" in printed


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"superseded_by": "ep_2"}, "ep_2 replaced it"),
        ({"status": Status.ARCHIVED}, "it is archived"),
        ({"status": Status.PROVISIONAL, "confidence": 0.1}, "it is doubtful"),
        ({"is_lowered": True}, "it was judged wrong"),
        ({"valid_to_ms": 5}, "it is no longer valid"),
    ],
)
def test_a_memory_that_is_not_in_force_has_one_reason(filled: Store, changes: dict[str, Any], reason: str) -> None:
    memory = replace(
        all_memories(filled)[0], status=Status.ACTIVE, superseded_by="", is_lowered=False, valid_to_ms=None
    )

    said = why_not_in_force(replace(memory, **changes), 10)

    assert said.startswith(reason)
    assert bool(said) is bool(reason)


@pytest.mark.parametrize("verdict", [Verdict.BELOW_FLOOR, Verdict.NOT_QUOTABLE, Verdict.TOO_SHORT])
def test_people_read_words_and_scripts_the_name_of_a_verdict(
    filled: Store, run: Run, run_json: RunJson, verdict: Verdict
) -> None:
    episode_id = some_memory(filled)
    add_outcome(
        filled, verdict=verdict, channel=Channel.TOOL, considered=(Candidate(0, episode_id, verdict, 0.2, 0.3, {}),)
    )

    session, memory = run("why", "s-unread").stdout, run("why", episode_id).stdout

    assert f"  At a tool call; {REASONS[verdict]}" in session
    assert f"{CANDIDATE_REASONS[verdict]}, at a tool call" in memory
    for printed in (session, memory):
        assert verdict not in printed
        assert "verdict" not in printed
    assert run_json("why", "s-unread")["moments"][0]["outcomes"][0]["verdict"] == verdict


def test_every_verdict_has_a_reason() -> None:
    assert set(REASONS) == set(Verdict)
