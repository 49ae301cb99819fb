"""LoCoMo counted by sessions, beside messages."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

SAMPLE = {
    "sample_id": "conv-1",
    "qa": [
        {"category": 1, "evidence": ["D8:6; D9:17"]},
        {"category": 4, "evidence": ["D:1:03"]},
        {"category": 5, "evidence": ["D1:1"]},
        {"category": 2, "evidence": []},
    ],
}


@pytest.fixture
def session_level(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, which lies beside the other benchmarks."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    return importlib.import_module("session_level")


def test_questions_without_evidence_or_answer_do_not_count(session_level: Any) -> None:
    assert session_level.read_wanted([SAMPLE]) == {
        "conv-1-0": {"conv-1/D8:6", "conv-1/D9:17"},
        "conv-1-1": {"conv-1/D1:3"},
    }


def test_a_session_counts_once_where_its_best_message_stands(session_level: Any) -> None:
    assert session_level.sessions_of(["c/D2:1", "c/D2:9", "c/D1:4", "c/D2:3"]) == ["c/D2", "c/D1"]


def test_another_message_of_the_right_session_is_a_session_and_no_message(session_level: Any) -> None:
    counted = [({"c/D1:3"}, ["c/D1:8", "c/D2:1"]), ({"c/D2:1", "c/D4:1"}, ["c/D2:2", "c/D2:1"])]
    messages, sessions = (session_level.figures(counted, count) for count in (list, session_level.sessions_of))
    assert (messages["one of them in 1"], messages["one of them in 5"], messages["share in 5"]) == (0, 50, 25)
    assert (sessions["one of them in 1"], sessions["one of them in 5"], sessions["share in 5"]) == (100, 100, 75)
