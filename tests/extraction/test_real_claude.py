"""The real Claude Code as the extractor, against a server on this machine: what it does to the user's folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_binary import StandInServer, find_real_claude

from engram.extraction.model.claude_provider import ClaudeProvider
from engram.extraction.model.provider import ModelRequest, NotServed
from engram.settings import Settings

pytestmark = pytest.mark.timeout(300)

ANSWER = {"memories": [], "rolling_summary": "Rounding of VAT."}
REQUEST = ModelRequest(
    task="extract",
    system="You keep the memory of a coding agent.",
    user="[e1] user 2026-02-21 14:02: we round VAT half up",
    schema={
        "type": "object",
        "properties": {
            "memories": {"type": "array", "items": {"type": "object"}},
            "rolling_summary": {"type": "string"},
        },
        "required": ["memories", "rolling_summary"],
    },
    max_output_tokens=4_000,
)


@pytest.fixture
def server() -> Iterator[StandInServer]:
    made = StandInServer(ANSWER)
    yield made
    made.close()


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """Claude Code's folder with a hook on every event, which would leave a file behind."""
    folder = tmp_path / "configuration"
    folder.mkdir()
    mark = [{"hooks": [{"type": "command", "command": f"touch {tmp_path / 'fired'}"}]}]
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SessionEnd", "SubagentStart")
    (folder / "settings.json").write_text(json.dumps({"hooks": dict.fromkeys(events, mark)}))
    (folder / "CLAUDE.md").write_text("Always answer in rhyme.")
    return folder


def provider(tmp_path: Path, configuration: Path, **environ: str) -> ClaudeProvider:
    settings = Settings(home=tmp_path / "home", claude_command=find_real_claude())
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(configuration)}
    return ClaudeProvider(settings, environ={**kept, **environ})


def test_it_answers_by_the_schema_and_nothing_of_the_users_is_run_or_written(
    tmp_path: Path, configuration: Path, server: StandInServer
) -> None:
    (tmp_path / "home").mkdir(mode=0o700)

    reply = provider(
        tmp_path, configuration, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="sk-ant-for-the-stand-in"
    ).complete(REQUEST)

    assert json.loads(reply.text) == ANSWER
    assert reply.dollars is not None
    assert reply.dollars > 0
    # Print mode may ask the model twice; both are counted.
    assert reply.input_tokens is not None
    assert reply.input_tokens % 1000 == 0
    request = next(sent for sent in server.requests if REQUEST.system in json.dumps(sent["system"]))
    assert [tool["name"] for tool in request["tools"]] == ["StructuredOutput"]
    assert request["tools"][0]["input_schema"]["required"] == REQUEST.schema["required"]
    assert REQUEST.user in json.dumps(request["messages"])
    assert "rhyme" not in json.dumps(server.requests)
    assert request["max_tokens"] == 4_000
    assert not (tmp_path / "fired").exists()
    assert list(configuration.rglob("*.jsonl")) == []
    assert list((tmp_path / "home" / "calls").iterdir()) == []


def test_without_a_login_it_says_what_to_do(tmp_path: Path, configuration: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)

    with pytest.raises(NotServed, match="/login") as caught:
        provider(tmp_path, configuration).complete(REQUEST)

    assert not caught.value.is_passing
