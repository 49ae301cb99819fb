"""Transcripts are found by name and place; nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engram.transcripts.claude_code.discover import find_transcripts, identify, is_session_id, transcripts_below

SESSION = "4b2030ed-5563-49ea-b703-6a002f2d3cc8"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "claude" / "projects" / "-home-me-p"
    (folder / SESSION / "subagents" / "workflows" / "w1").mkdir(parents=True)
    (folder / SESSION / "tool-results").mkdir()
    (folder / "memory").mkdir()
    for name in (
        f"{SESSION}.jsonl",
        "short.jsonl",
        "agent-a1.jsonl",
        f"{SESSION}/subagents/agent-a2.jsonl",
        f"{SESSION}/subagents/agent-a2.meta.json",
        f"{SESSION}/subagents/workflows/w1/agent-a3.jsonl",
        f"{SESSION}/tool-results/x.txt",
        "memory/MEMORY.md",
        ".hidden.jsonl",
        "with space.jsonl",
    ):
        (folder / name).write_text("{}\n")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "link.jsonl").symlink_to("/etc/passwd")
    (folder / "folder.jsonl").mkdir()
    (tmp_path / "claude" / "projects" / "loop").symlink_to(tmp_path / "claude" / "projects")
    return tmp_path / "claude"


def test_sessions_are_found_and_subagents_left_out(config: Path) -> None:
    assert [file.path.name for file in find_transcripts(config)] == [f"{SESSION}.jsonl", "short.jsonl"]


def test_subagents_are_found_when_asked_for_with_the_session_they_belong_to(config: Path) -> None:
    found = {file.path.name: file for file in find_transcripts(config, with_subagents=True)}

    assert set(found) == {f"{SESSION}.jsonl", "short.jsonl", "agent-a1.jsonl", "agent-a2.jsonl", "agent-a3.jsonl"}
    assert found["agent-a2.jsonl"].parent_id == found["agent-a3.jsonl"].parent_id == SESSION
    assert found["agent-a1.jsonl"].is_subagent
    assert len({file.session_id for file in found.values()}) == 5


def test_a_missing_folder_holds_none(tmp_path: Path) -> None:
    assert list(find_transcripts(tmp_path / "nowhere")) == []


def test_a_folder_named_projects_may_be_given_itself(config: Path) -> None:
    assert len(list(find_transcripts(config / "projects"))) == 2


@pytest.mark.parametrize("name", ["a.jsonl\n", "..jsonl", "a..b.jsonl", "x" * 200 + ".jsonl", "a.txt", "ü.jsonl"])
def test_odd_names_are_not_transcripts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}\n")

    assert identify(tmp_path / name) is None


@pytest.mark.parametrize("text", ["../x", "/etc/passwd", "a/b", "a\n", "", "a\0b", "x" * 10_000, None, 5, ".x", "a..b"])
def test_no_path_passes_for_a_session_id(text: object) -> None:
    assert not is_session_id(text)


def test_real_ids_pass() -> None:
    assert is_session_id(SESSION)
    assert is_session_id("short")


@pytest.mark.parametrize(
    "place",
    [
        f"{SESSION}/planted.jsonl",
        f"{SESSION}/tool-results/{SESSION}.jsonl",
        f"{SESSION}/tool-results/subagents/agent-x.jsonl",
        f"{SESSION}/projects/-home-me-p/{SESSION}.jsonl",
        "memory/notes.jsonl",
        "../loose.jsonl",
    ],
)
def test_only_the_places_of_claude_code_hold_transcripts(config: Path, place: str) -> None:
    projects = config / "projects"
    path = (projects / "-home-me-p").joinpath(*place.split("/"))
    path = Path(os.path.normpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}\n")

    assert identify(path, projects) is None
    assert path not in {file.path for file in transcripts_below(config, projects)}
    assert path not in {file.path for file in find_transcripts(config, with_subagents=True)}


def test_the_rule_by_path_and_the_search_agree(config: Path) -> None:
    projects = config / "projects"
    (config / "projects" / "-home-me-p" / SESSION / "planted.jsonl").write_text("{}\n")
    by_path = [source for path in projects.rglob("*.jsonl") if (source := identify(path, projects)) is not None]

    for with_subagents in (False, True):
        wanted = {source.path for source in by_path if with_subagents or not source.is_subagent}
        assert wanted == {file.path for file in find_transcripts(config, with_subagents=with_subagents)}
    assert wanted == {file.path for file in transcripts_below(config, projects)}


def test_a_folder_of_transcripts_elsewhere_is_read_but_no_sessions_folder(tmp_path: Path) -> None:
    for name in (
        "kept/one.jsonl",
        f"kept/{SESSION}.jsonl",
        f"kept/{SESSION}/planted.jsonl",
        "claude/projects/-p/a.jsonl",
        "claude/projects/-p/a/planted.jsonl",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")

    found = {str(file.path.relative_to(tmp_path)) for file in transcripts_below(tmp_path, tmp_path / "nowhere")}

    assert found == {"kept/one.jsonl", f"kept/{SESSION}.jsonl", "claude/projects/-p/a.jsonl"}
