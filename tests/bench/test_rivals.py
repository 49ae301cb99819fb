"""The comparison with other memory programs: scoring by text alone, and pages that show what was measured."""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.json_lines import write_lines
from bench.qa.folder import RunKey, answer_id, write_key
from bench.qa.questions import ReaderQuestion

REPO = Path(__file__).resolve().parents[2]
RIVALS = REPO / "benchmarks" / "rivals"
SAID = (
    "The watcher holds a flock on watcher.lock rather than a PID file, because a reused PID made two watchers read the "
    "same transcript and store every turn twice."
)


@pytest.fixture
def rivals(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the comparison by its name."""
    monkeypatch.syspath_prepend(str(RIVALS))
    yield importlib.import_module
    for name in [name for name, module in sys.modules.items() if str(RIVALS) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def corpus_of(rivals: Any, tmp_path: Path, entries: dict[str, str]) -> Any:
    """Read a corpus of one session with these entries."""
    lines = [
        {"type": "assistant", "uuid": uuid, "message": {"content": [{"type": "text", "text": text}]}}
        for uuid, text in entries.items()
    ]
    (tmp_path / "0a1b2c3d-session.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return rivals("score").read_corpus(tmp_path, entries)


@pytest.mark.parametrize(
    ("answer", "is_shown"),
    [
        (f"1. {SAID}", True),
        ("> " + SAID[20:110].upper(), True),
        (SAID.replace(" ", "\n"), True),
        (json.dumps({"text": SAID.replace("because", "because\n")}), True),
        (SAID[:50], False),
        ("A PID file was dropped for a flock, since ids are used again.", False),
        ("", False),
    ],
)
def test_evidence_counts_by_what_the_answer_quotes(rivals: Any, tmp_path: Path, answer: str, is_shown: bool) -> None:
    corpus = corpus_of(rivals, tmp_path, {"u1": SAID})
    assert rivals("score").evidence_share(answer, ["u1"], corpus, 400) == float(is_shown)


def test_evidence_beyond_the_words_that_are_read_does_not_count(rivals: Any, tmp_path: Path) -> None:
    score, corpus = rivals("score"), corpus_of(rivals, tmp_path, {"u1": SAID, "u2": "Yes, keep it."})
    answer = "word " * 190 + "yes keep it. " + SAID
    assert score.evidence_share(answer, ["u1", "u2"], corpus, 400) == 1.0
    assert score.evidence_share(answer, ["u1", "u2"], corpus, 200) == 0.5


def test_a_session_is_named_by_the_beginning_of_its_id(rivals: Any, tmp_path: Path) -> None:
    score, corpus = rivals("score"), corpus_of(rivals, tmp_path, {"u1": SAID})
    assert score.names_session("see 0a1b2c3d", ["u1"], corpus, 400)
    assert not score.names_session("see 0a1b2c", ["u1"], corpus, 400)
    assert not score.names_session("word " * 400 + "0a1b2c3d", ["u1"], corpus, 400)


def test_every_program_gets_the_same_sessions_in_folders_that_exist(rivals: Any, tmp_path: Path) -> None:
    source = tmp_path / "corpus" / "somebody__harbor" / "projects" / "-home-them-harbor"
    source.mkdir(parents=True)
    line = {"cwd": "C:\\work\\harbor", "timestamp": "2026-03-01T10:00:00.000Z", "text": 'prints "cwd":"kept"'}
    (source / "s1.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    machine = rivals("machine").prepare_machine(tmp_path / "machine", tmp_path / "corpus")
    folder = machine.projects["somebody__harbor"]
    (copied,) = machine.claude.rglob("*.jsonl")
    assert folder.is_dir()
    assert json.loads(copied.read_text()) == line | {"cwd": str(folder)}
    assert copied.stat().st_mtime == pytest.approx(1772359200)


def test_a_hook_is_read_as_claude_code_reads_it(rivals: Any) -> None:
    context_of = rivals("machine").context_of
    shown = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "a line"}}
    assert context_of(json.dumps(shown)) == "a line"
    assert context_of("plain text\n") == "plain text"
    assert context_of(json.dumps({"continue": True, "suppressOutput": True})) == ""
    assert context_of("") == ""


def test_the_baseline_answers_from_the_sessions_of_the_folder(rivals: Any, tmp_path: Path) -> None:
    program = rivals("fts5_program")
    for folder in ("/code/harbor", "/code/ferry"):
        line = {
            "type": "user",
            "uuid": folder,
            "cwd": folder,
            "message": {"content": f"The lock of {folder} is a flock"},
        }
        (tmp_path / f"{folder[-5:]}.jsonl").write_text(json.dumps(line), encoding="utf-8")
    database = sqlite3.connect(":memory:")
    program.index(database, tmp_path)
    answer = program.ask(database, 'which "lock" is it?', "/code/ferry")
    assert "ferry" in answer
    assert "harbor" not in answer
    database.close()


def test_readers_of_a_recorded_run_stand_in_the_table_and_a_program_without_one_has_none(
    rivals: Any, tmp_path: Path
) -> None:
    tables = rivals("tables")
    questions = [ReaderQuestion(name, "harbor", "", "", name != "q4") for name in ("q1", "q2", "q3", "q4")]
    key = RunKey(14, {"1": "rules:400", "2": "ferry:400"}, questions, {})
    write_key(tmp_path, key)
    told = {"1": ["A", "A", "B", "NOT KNOWN"], "2": ["A", "B", "NOT KNOWN", "NOT KNOWN"]}
    scores = {}
    for number, answers in told.items():
        lines = [{"id": question.id, "answer": text} for question, text in zip(questions, answers, strict=True)]
        (tmp_path / "readers" / number).mkdir(parents=True)
        write_lines(tmp_path / "readers" / number / "answers.jsonl", lines)
        verdict = {"A": "right", "B": "wrong", "NOT KNOWN": "unanswered"}
        scores |= {answer_id(key, line["id"], line["answer"]): verdict[line["answer"]] for line in lines}
    (tmp_path / "judge").mkdir()
    write_lines(tmp_path / "judge" / "scores.jsonl", [{"id": name, "verdict": of} for name, of in scores.items()])

    readers = tables.read_readers(tmp_path)

    engram, ferry, other = ({"name": name} for name in ("Engram", "ferry", "other"))
    assert tables.verdicts(readers, engram) == ["right", "right", "wrong"]
    assert tables.verdicts(readers, ferry) == ["right", "wrong", "unanswered"]
    assert tables.ahead_of_reader(readers, engram, ferry).startswith("+33.3 ± ")
    assert tables.verdicts(readers, other) == []
    assert {tables.ahead_of_reader(readers, engram, one) for one in (engram, other)} == {tables.NONE}
    assert tables.read_readers(tmp_path / "none") == {}


def test_the_pages_show_the_figures_of_the_last_run(rivals: Any) -> None:
    tables = rivals("tables")
    results = tables.read_results(tables.RESULTS)
    for page, block in (("README.md", tables.readme_block), ("docs/comparison.md", tables.comparison_block)):
        text = (REPO / page).read_text(encoding="utf-8")
        assert tables.with_block(text, block(results)) == text, "python benchmarks/rivals/tables.py --write"
