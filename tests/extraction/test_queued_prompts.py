"""A prompt that is queued while Claude works: its answer is read with it, wherever the reading stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from memories_fingerprint import memories_fingerprint
from transcript_lines import line

from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings

SESSION = "11111111-2222-3333-4444-555555555555"
FIRST = "Why does the importer drop the last row of every CSV file?"
SECOND = "And does the exporter have the same fault with the final newline?"
ANSWER = (
    "The exporter had a different fault: write_header in exporter.py was called twice under gzip, "
    "so we decided to open the stream lazily in ExportStream.enter."
)


def queue(operation: str, content: str = "") -> str:
    facts: dict[str, Any] = {
        "type": "queue-operation",
        "operation": operation,
        "timestamp": "2026-05-01T10:00:00.000Z",
        "sessionId": SESSION,
    }
    return json.dumps(facts | ({"content": content} if content else {})) + "\n"


def handed_over(prompt: str) -> str:
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"}
    facts = json.loads(line("user", "", session=SESSION))
    del facts["message"]
    return json.dumps(facts | {"type": "attachment", "attachment": attachment}) + "\n"


def call(name: str, **given: str) -> str:
    return line("assistant", [{"type": "tool_use", "id": "toolu_1", "name": name, "input": given}], session=SESSION)


def result(text: str) -> str:
    return line(
        "user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": text, "is_error": False}], session=SESSION
    )


#: Lines as Claude Code 2.1 writes them where the second prompt comes before the line of the first one is written.
IN_PRINT_MODE = [
    queue("enqueue", FIRST),
    queue("dequeue"),
    queue("enqueue", SECOND),
    line("user", FIRST, session=SESSION),
    call("Bash", command="ls"),
    result("importer.py"),
    queue("remove"),
    handed_over(SECOND),
    line("assistant", ANSWER, session=SESSION),
]
#: On the interactive screen the first prompt is not queued.
INTERACTIVE = IN_PRINT_MODE[2:]
#: Older versions write no attachment.
OLDER = [one for one in IN_PRINT_MODE if "queued_command" not in one]


@pytest.mark.parametrize("lines", [IN_PRINT_MODE, INTERACTIVE, OLDER], ids=["print mode", "interactive", "older"])
def test_the_answer_to_a_prompt_queued_before_the_first_one_is_written_is_its_own(
    tmp_path: Path, lines: list[str]
) -> None:
    for stop in range(len(lines)):
        settings = Settings(home=tmp_path / f"home-{stop}", claude_folder=tmp_path / f"claude-{stop}")
        settings.home.mkdir()
        path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
        path.parent.mkdir(parents=True)
        with open_store(settings.places.memory_db) as store:
            for end in (stop, len(lines)):
                path.write_text("".join(lines[:end]))
                ingest_path(store, path, settings=settings, redact=redact)

            extract_session(store, SESSION, extractor=LocalExtractor(), embedder=None, settings=settings)

            session = find_session(store, SESSION)
            assert session is not None
            prompts = [stored.turn.prompt for stored in turns_of_session(store, session.id)]
            assert prompts == [FIRST, SECOND], f"stopped after {stop} lines"
            replies = [stored.turn.reply for stored in turns_of_session(store, session.id)]
            assert "write_header" in replies[1], f"stopped after {stop} lines"


RULE = "From now on always write files with a final newline in this project."


@pytest.mark.parametrize("stop", range(1, 5))
def test_a_queued_prompt_that_was_extracted_and_then_comes_as_a_line_is_kept_once_with_its_line(
    tmp_path: Path, stop: int
) -> None:
    lines = [
        queue("enqueue", RULE),
        queue("dequeue"),
        line("user", RULE, session=SESSION, entry="00000000-0000-4000-8000-000000000001"),
        line("assistant", "Understood.", session=SESSION),
    ]
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    settings.home.mkdir()
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    with open_store(settings.places.memory_db) as store:
        for end in (stop, len(lines)):
            path.write_text("".join(lines[:end]))
            ingest_path(store, path, settings=settings, redact=redact)
            extract_session(store, SESSION, extractor=LocalExtractor(), embedder=None, settings=settings)

        (kept,) = memories_fingerprint(store).kept
        assert kept.project == "demo"
        assert kept.evidence == ("00000000-0000-4000-8000-000000000001",)
