"""Real rollouts give the prompts, replies and calls that a separate count of their lines gives."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.settings import Settings
from engram.transcripts.turns import Opening, Role, Turn

pytestmark = pytest.mark.corpus
Read = Callable[..., list[Turn]]


@pytest.fixture(scope="module")
def rollouts(shared: Path) -> list[Path]:
    """The real rollouts; skips the test where they are absent."""
    files = sorted((shared / "corpus-codex").glob("*/*.jsonl"))
    if not files:
        pytest.skip("the corpus of real rollouts is not at hand")
    return files


@pytest.fixture
def placed(rollouts: list[Path], codex_folder: Path) -> list[Path]:
    """The rollouts in Codex's folder, under the names that Codex gives them."""
    day = codex_folder / "sessions" / "2026" / "06" / "26"
    day.mkdir(parents=True)
    paths = []
    for path in rollouts:
        paths.append(day / f"rollout-2026-06-26T12-00-00-{path.name}")
        paths[-1].write_bytes(path.read_bytes())
    return paths


def payloads(path: Path) -> list[dict[str, Any]]:
    """Payloads of a rollout's lines, with the line's type; read without the package that is tested."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [line["payload"] | {"line_type": line["type"]} for line in lines]


def test_prompts_replies_and_calls_are_those_of_a_separate_count(placed: list[Path], read: Read, store: Store) -> None:
    prompt_count = 0
    for path in placed:
        lines = payloads(path)
        turns = read(lines[0]["id"])
        shown = [line["message"].strip() for line in lines if line.get("type") == "user_message"]
        said = [line["message"].strip() for line in lines if line.get("type") == "agent_message"]
        # Codex asks for further output of a running command by a call of its own.
        calls = [line for line in lines if line.get("type") in ("function_call", "custom_tool_call")]
        calls = [line["call_id"] for line in calls if line["name"] != "write_stdin"]

        assert [turn.opening for turn in turns] == [Opening.PROMPT] * len(shown), path.name
        assert [len(turn.prompt) > 0 for turn in turns] == [True] * len(shown)
        assert words(turn.prompt for turn in turns) == words(shown), path.name
        blocks = [block.text for turn in turns for block in turn.said if block.role is Role.ASSISTANT]
        assert words(blocks) == words(said), path.name
        assert sum(len(turn.actions) for turn in turns) == len(calls), path.name
        prompt_count += len(shown)

    assert prompt_count == store.value("SELECT count(*) FROM turn") == 54


def words(texts: Any) -> list[str]:
    """Texts without what redaction masks: addresses, keys and the like are compared by their first words."""
    return [" ".join(text.split())[:30] for text in texts]


def test_failures_commits_and_the_session_are_those_of_a_separate_count(
    placed: list[Path], read: Read, store: Store
) -> None:
    for path in placed:
        lines = payloads(path)
        outputs = [line["output"] for line in lines if str(line.get("type")).endswith("call_output")]
        ended = [text for text in outputs if "\nProcess exited with code " in text[:200]]
        failed = [text for text in ended if " code 0\n" not in text[:200]]
        failed += [text for text in outputs if text.startswith(("apply_patch verification failed", "aborted by user"))]
        turns = read(lines[0]["id"])
        actions = [action for turn in turns for action in turn.actions]

        assert sum(bool(action.is_error) for action in actions) == len(failed), path.name
        assert {turn.cwd for turn in turns} == {lines[0]["cwd"]}
        assert turns[0].branch == lines[0]["git"]["branch"]
        assert sum(turn.is_interrupted for turn in turns) == sum(line.get("type") == "turn_aborted" for line in lines)
    assert store.value("SELECT count(*) FROM context WHERE began_at_ms > 0") == 1
    assert store.value("SELECT count(*) FROM said WHERE text LIKE '%AGENTS.md instructions%'") == 0
    assert store.value("SELECT count(*) FROM said WHERE text LIKE '<%'") == 0


def test_cut_at_random_bytes_the_result_is_the_same(
    placed: list[Path], read: Read, store: Store, settings: Settings
) -> None:
    chosen = random.Random(7)
    contents = {path: path.read_bytes() for path in placed}
    for path in placed:
        path.write_bytes(b"")
    for part in range(1, 9):
        for path, content in contents.items():
            end = len(content) if part == 8 else chosen.randrange(len(content) * part // 8)
            with path.open("ab") as file:
                file.write(content[file.tell() : end])
        read()
    grown = content_of(store)
    with open_store(settings.home / "whole.db", clock=store.clock) as whole:
        from engram.ingest.read_sources import ingest_all
        from engram.redaction import redact

        ingest_all(whole, settings=settings, redact=redact)

        assert content_of(whole) == grown


def content_of(store: Store) -> list[Any]:
    """Everything that reading stores, apart from row ids and times of writing."""
    return [
        store.rows("SELECT key, opening, start_offset, end_offset, is_closed, message_count FROM turn ORDER BY key"),
        store.rows("SELECT t.key, s.seq, s.text FROM said s JOIN turn t ON t.id = s.turn_id ORDER BY 1, 2"),
        store.rows("SELECT e.key, t.key FROM entry e JOIN turn t ON t.id = e.turn_id ORDER BY 1"),
        store.rows("SELECT session_id, agent, message_count, last_at_ms, cwd FROM session ORDER BY 1"),
    ]
