"""What stands in CLAUDE.md is said neither by a bite nor by the briefing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.enums import Actor, Scope
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.notes.user_files import read_standing_files
from engram.recollection.recollection_service import RecollectionService
from engram.recollection.session_briefing import build_briefing
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings

RULE = "Migrations of the harbor database run in the pipeline, never by hand on the server."
PROMPT = "Run the migrations of the harbor database by hand on the server"


@pytest.fixture
def rules(settings: Settings) -> Path:
    path = settings.claude_folder / "CLAUDE.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def ask(store: Store, settings: Settings) -> str:
    service = RecollectionService(store, Searcher(store, settings), settings)
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": "/gone/harbor", "prompt": PROMPT}
    return service.answer_hook(payload).decode()


def test_a_memory_that_stands_in_a_file_is_said_until_then_and_no_longer(
    store: Store, settings: Settings, rules: Path
) -> None:
    save_memory(store, RULE, redact, scope=Scope.GLOBAL, actor=Actor.USER)
    assert RULE in ask(store, settings)
    assert RULE in build_briefing(store, settings)

    rules.write_text(f"# Rules\n\n- {RULE}\n")
    read_standing_files(store, settings, redact)

    assert RULE not in ask(store, settings)
    assert RULE not in build_briefing(store, settings)
