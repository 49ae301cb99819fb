"""Recorded answers stay valid as long as the session's own lines are the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.recorded_provider import Unanswered
from bench.tasks.recorded import SessionAnswers, session_key
from engram.errors import BadRequest
from engram.extraction.model.provider import ModelRequest

SESSION = "\nThe session:\n[e1] user 2026-01-01 10:00: the sign says 24 now"
SHOWN = "project: signs\nKept of the project already:\n[m3] 2026-01-01 decision, in force: The sign says 50."


def request(above: str, system: str = "Write memories.") -> ModelRequest:
    return ModelRequest(task="extract", system=system, user=above + SESSION, schema={}, max_output_tokens=100)


def answers(folder: Path, target: str | None) -> SessionAnswers:
    memory = {"action": "supersedes", "target": target, "summary": "The sign says 24.", "evidence": ["e1"]}
    record = {"key": session_key(SHOWN + SESSION), "answer": {"memories": [memory], "rolling_summary": ""}}
    (folder / "scribe.jsonl").write_text(json.dumps(record) + "\n")
    return SessionAnswers(folder)


def test_an_answer_is_found_whatever_stands_above_the_session(tmp_path: Path) -> None:
    provider = answers(tmp_path, None)

    reply = provider.complete(request("project: signs\nmemories: at most 3", system="Another prompt."))

    assert json.loads(reply.text)["memories"][0]["summary"] == "The sign says 24."


@pytest.mark.parametrize(
    ("target", "above", "action", "short"),
    [
        ("The sign says 50.", SHOWN, "supersedes", "m3"),
        ("The sign says 50.", "project: signs", "new", None),
        ("m3", SHOWN, "supersedes", "m3"),
        (None, SHOWN, "supersedes", None),
    ],
)
def test_a_target_gets_the_id_that_its_memory_has_in_the_request(
    tmp_path: Path, target: str | None, above: str, action: str, short: str | None
) -> None:
    (memory,) = json.loads(answers(tmp_path, target).complete(request(above)).text)["memories"]

    assert (memory["action"], memory["target"]) == (action, short)


def test_another_session_has_no_answer(tmp_path: Path) -> None:
    provider = answers(tmp_path, None)
    other = ModelRequest(task="extract", system="", user=SHOWN + SESSION + "!", schema={}, max_output_tokens=100)

    with pytest.raises(BadRequest, match="has no answer"):
        provider.complete(other)


def test_a_request_without_an_answer_is_written_if_that_is_wanted(tmp_path: Path) -> None:
    provider = SessionAnswers(tmp_path / "answers", writes_requests=True)

    with pytest.raises(Unanswered):
        provider.complete(request(SHOWN))

    key = session_key(SHOWN + SESSION)
    assert (tmp_path / "answers" / f"{key}.request.txt").read_text() == SHOWN + SESSION
