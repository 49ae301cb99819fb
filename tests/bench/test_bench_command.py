"""``python -m bench`` the real way, over small made-up sets and without the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.commands.searches import bench
from engram.cli.workspace import Workspace

FACTS = {
    "lock": "The queue lock was held while the model was loading, so the worker hung.",
    "colour": "The save button is green because red looked like a warning.",
    "driver": "We took cysqlite since the standard driver corrupted the log file.",
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(bench, list(arguments), obj=Workspace({}))


def transcript(folder: Path) -> None:
    sessions = folder / "app" / "projects" / "-work-app"
    sessions.mkdir(parents=True)
    lines = []
    for number, (name, fact) in enumerate(FACTS.items()):
        for role, text in (("user", f"What about the {name}?"), ("assistant", fact)):
            content = text if role == "user" else [{"type": "text", "text": text}]
            lines.append(
                {
                    "type": role,
                    "uuid": f"{name}-{role}",
                    "sessionId": "s1",
                    "cwd": "/work/app",
                    "parentUuid": None,
                    "timestamp": f"2026-01-0{number + 1}T10:00:00Z",
                    "userType": "external",
                    "version": "2.1.0",
                    "message": {"role": role, "id": f"m{number}", "content": content},
                }
            )
    (sessions / "s1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def code_set(tmp_path: Path) -> tuple[Path, Path]:
    transcript(tmp_path / "corpus")
    questions = tmp_path / "questions.jsonl"
    rows = [
        {
            "id": name,
            "project": "app",
            "question": f"Tell me about the {name} and why",
            "category": "fix",
            "evidence": [{"session": "s1", "uuid": f"{name}-assistant"}],
        }
        for name in FACTS
    ]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "corpus", questions


def test_the_code_bench_reads_transcripts_and_writes_every_hit(code_set: tuple[Path, Path], tmp_path: Path) -> None:
    corpus, questions = code_set
    run_file = tmp_path / "run.jsonl"

    result = run(
        "code",
        "--corpus",
        str(corpus),
        "--questions",
        str(questions),
        "--no-model",
        "--json",
        "--run",
        str(run_file),
    )

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["runs"]["Engram"]["figures"]["recall@10"] == 100
    assert "FTS5 alone" in found["paired"]
    lines = [json.loads(line) for line in run_file.read_text().splitlines()]
    assert {line["id"] for line in lines} == set(FACTS)
    hits = {hit["evidence"][0]: hit["text"] for line in lines for hit in line["hits"]}
    assert hits["lock-assistant"].endswith(FACTS["lock"])


def test_the_locomo_bench_prints_a_table_with_categories(tmp_path: Path) -> None:
    said = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted a grey cat named Miso."},
        {"speaker": "Bob", "dia_id": "D1:2", "text": "I painted the kitchen yellow."},
    ]
    conversation = {"speaker_a": "Ann", "session_1": said, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    questions = [{"question": "What is the cat of Ann called?", "category": 4, "evidence": ["D1:1"]}]
    data = tmp_path / "locomo.json"
    data.write_text(json.dumps([{"sample_id": "c", "conversation": conversation, "qa": questions}]))

    result = run("locomo", "--data", str(data), "--no-model")

    assert result.exit_code == 0, result.output
    assert "single-hop" in result.stdout
    assert "100" in result.stdout


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    result = run("locomo", "--data", str(tmp_path / "none.json"))

    assert result.exit_code == 2
    assert "none.json" in result.output
