"""Rollouts are found in Codex's folder, and recognised wherever a person keeps them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engram.settings import Settings, load
from engram.transcripts import registry, transcript_files
from engram.transcripts.codex import discover
from engram.transcripts.gemini import agent as gemini
from tests.rollouts import SESSION, Rollout


def test_the_folder_is_codex_home_or_the_users(tmp_path: Path) -> None:
    os.environ["CODEX_HOME"] = str(tmp_path / "named")
    named = load().settings.codex_folder
    del os.environ["CODEX_HOME"]

    assert named == tmp_path / "named"
    assert load().settings.codex_folder == Path.home() / ".codex"


def test_rollouts_are_found_and_nothing_else(rollout: Rollout, settings: Settings) -> None:
    rollout.head().user("Weigh the seal.")
    day = rollout.path.parent
    (day / "history.jsonl").write_text("{}\n")
    (day / "rollout-2026-06-26T12-00-00-not-a-session.jsonl").write_text("{}\n")
    (day / f"rollout-2026-06-26T13-00-00-{SESSION[:-1]}4.jsonl").symlink_to(rollout.path)
    os.mkfifo(day / f"rollout-2026-06-26T14-00-00-{SESSION[:-1]}5.jsonl")

    (source,) = registry.discover(settings)

    assert (source.agent, source.session_id, source.path) == ("codex", SESSION, rollout.path)
    assert source.size == rollout.path.stat().st_size
    assert list(registry.discover(replace(settings, codex_folder=rollout.folder / "gone"))) == []


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was read of the beginnings of files."""
    read: list[bytes] = []

    def read_head_and_note(*given: Any, **named: Any) -> bytes:
        read.append(transcript_files.read_head(*given, **named))
        return read[-1]

    for module in (discover, gemini):
        monkeypatch.setattr(module, "read_head", read_head_and_note)
    return read


def test_the_heads_of_any_number_of_rollouts_are_read_once(
    rollout: Rollout, settings: Settings, heads: list[bytes]
) -> None:
    rollout.head()
    for number in range(1, 4100):
        os.link(rollout.path, rollout.path.with_name(f"rollout-2026-06-26T12-00-00-{number:08x}{SESSION[8:]}.jsonl"))

    assert len(list(registry.discover(settings))) == len(heads) == 4100
    assert len(list(registry.discover(settings))) == len(heads)


def test_a_file_without_a_head_costs_no_other_file_a_read(settings: Settings, heads: list[bytes]) -> None:
    """A program that is killed at its start leaves such a file for good."""
    day = settings.codex_folder / "sessions" / "2026" / "06" / "26"
    chats = settings.gemini_folder / "tmp" / "harbour" / "chats"
    for folder in (day, chats):
        folder.mkdir(parents=True)
    head = json.dumps({"timestamp": "2026-06-26T12:00:00.000Z", "type": "session_meta", "payload": {"id": SESSION}})
    for number in range(5):
        session = f"{number:08x}{SESSION[8:]}"
        is_empty = number == 3
        (day / f"rollout-2026-06-26T12-00-00-{session}.jsonl").write_text("" if is_empty else f"{head}\n")
        chat = chats / f"session-2026-06-26T12-00-{number:08x}.jsonl"
        chat.write_text("" if is_empty else f'{{"sessionId": "{session}"}}\n')
    assert len(list(registry.discover(settings))) == 9
    heads.clear()

    assert len(list(registry.discover(settings))) == 9
    assert heads == [b"", b""]


def test_only_the_first_line_of_a_rollout_is_read_to_find_it(
    rollout: Rollout, settings: Settings, heads: list[bytes]
) -> None:
    rollout.head().user("Weigh the seal. " * 50_000)

    assert len(list(registry.discover(settings))) == 1
    assert sum(map(len, heads)) < 50_000 < rollout.path.stat().st_size


def test_a_file_that_is_named_belongs_to_the_agent_that_wrote_it(
    rollout: Rollout, settings: Settings, tmp_path: Path
) -> None:
    rollout.head().user("Weigh the seal.")
    kept = tmp_path / "kept"
    kept.mkdir()
    copy = kept / f"{SESSION}.jsonl"
    copy.write_bytes(rollout.path.read_bytes())
    claude = kept / "4f0a3c1e-0000-4000-8000-000000000001.jsonl"
    claude.write_text(json.dumps({"type": "user", "uuid": "u1", "message": {"content": "hello"}}) + "\n")

    agents = {source.path.name: source.agent for source in registry.sources_at(kept, settings)}

    assert agents == {copy.name: "codex", claude.name: "claude-code"}
    for path in (rollout.path, copy):
        assert [(s.agent, s.session_id) for s in registry.sources_at(path, settings)] == [("codex", SESSION)]


def test_a_head_that_is_not_whole_yet_is_looked_at_again(rollout: Rollout, settings: Settings) -> None:
    rollout.head(source={"subagent": "review"}, thread_source="subagent")
    content = rollout.path.read_bytes()
    rollout.path.write_bytes(content[:40])
    before = list(registry.discover(settings))
    with rollout.path.open("ab") as file:
        file.write(content[40:])

    assert [source.session_id for source in before] == [SESSION]
    assert list(registry.discover(settings)) == []
