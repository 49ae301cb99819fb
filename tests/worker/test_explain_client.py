"""What a prompt would be answered, and what became of those that were sent: through the real worker and without."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from processes import wait_for
from workers import StartWorker, ask_hook, stand_in, status

from engram.cli.main import engram
from engram.cli.why_commands import explain_prompt
from engram.enums import Actor, Verdict
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.sessions import prompt_outcomes
from engram.models.shown import injections
from engram.recollection.recollection_service import Explanation
from engram.redaction import redact
from engram.settings import Settings
from engram.worker.recall_client import AnsweredBy
from engram.worker.worker_client import ask_worker

FACT = "The watcher holds watcher.lock by flock, never by a PID file."
PROMPT = "Why does the watcher hold a flock and no PID file?"
SESSION = "22582f02-0391-4a88-b729-f218fbfb8d9e"


@pytest.fixture
def store(settings: Settings) -> Any:
    with open_store(settings.places.memory_db) as opened:
        save_memory(opened, FACT, redact, scope="global", actor=Actor.AGENT)
        yield opened


@pytest.fixture
def run(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command in this process, in the memory folder of the worker."""
    monkeypatch.setenv("ENGRAM_HOME", str(settings.home))
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")

    def invoke(*arguments: str) -> Any:
        result = CliRunner().invoke(engram, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return invoke


def test_the_worker_records_every_prompt_and_explains_without_a_trace(
    start: StartWorker, settings: Settings, store: Store, run: Callable[..., Any]
) -> None:
    start()
    wait_for(lambda: status(settings.places))

    # Until the vectors are loaded, a prompt is rated by its text alone.
    wait_for(lambda: "turn" in run("why", "--prompt", PROMPT)["memories"][0]["features"])
    dry = run("why", "--prompt", PROMPT)
    assert (dry["by"], dry["verdict"]) == ("worker", "shown")
    assert FACT in dry["shown"]
    assert prompt_outcomes.list_outcomes(store) == injections.injections_of_session(store, SESSION) == []

    said = ("yes", "Please write a poem about the harbour of Lisbon")
    shown, *silent = (
        ask_hook(settings, prompt, SESSION, "/dev/lab/proj", prompt_id=f"p{number}")
        for number, prompt in enumerate((PROMPT, *said), 1)
    )
    assert FACT in shown
    assert silent == ["", ""]
    wait_for(lambda: len(prompt_outcomes.list_outcomes(store)) == 3)

    report = run("why", SESSION[:8])
    assert [moment["verdict"] for moment in report["moments"]] == ["shown", "too short", "nothing near"]
    (found,) = [memory for memory in report["moments"][0]["outcomes"][0]["memories"] if memory["verdict"] == "shown"]
    explained = {memory["id"]: memory for memory in dry["memories"]}[found["id"]]
    assert (found["summary"], found["floor"], set(found["features"])) == (
        FACT,
        explained["floor"],
        set(explained["features"]),
    )
    of_memory = run("why", found["id"])
    assert (of_memory["shown"], [outcome["session"] for outcome in of_memory["outcomes"]]) == (1, [SESSION])


def test_without_a_worker_this_process_decides_the_same(settings: Settings, store: Store) -> None:
    explanation, answered_by, _ = explain_prompt(store, settings, PROMPT, None)

    assert (answered_by, explanation.verdict) == (AnsweredBy.MODEL, Verdict.SHOWN)
    assert [memory.summary for memory in explanation.memories] == [FACT]
    assert Explanation.from_json(json.loads(json.dumps(explanation.to_json()))) == explanation

    # What a worker of version 0.1.0 says of it, before its service was started again.
    said = json.loads(json.dumps(explanation.to_json()))
    for memory in said["memories"]:
        del memory["episode_id"]
    assert Explanation.from_json(said) == explanation
    assert "is_text_only" not in said


def test_the_worker_refuses_what_is_not_a_question(start: StartWorker, settings: Settings) -> None:
    start()
    wait_for(lambda: status(settings.places))

    for request, error in (
        ({"prompt": 7}, "prompt must be a string"),
        ({"prompt": "x", "project_id": True}, "project_id must be a number"),
        ({"prompt": "x", "project_id": 99}, "there is no project 99"),
    ):
        assert ask_worker(settings.places, {"op": "explain"} | request) == {"error": error}


@pytest.mark.parametrize("answer", [b'{"error": "x"}', b'{"verdict": "shown"}', b'{"memories": 7}', b"{}", b""])
def test_an_answer_that_cannot_be_understood_is_not_an_answer(settings: Settings, store: Store, answer: bytes) -> None:
    with stand_in(settings, answer):
        explanation, answered_by, _ = explain_prompt(store, settings, PROMPT, None)

    assert (answered_by, explanation.verdict) == (AnsweredBy.MODEL, Verdict.SHOWN)
