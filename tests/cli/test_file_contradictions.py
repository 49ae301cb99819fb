"""``engram review`` lists the memories that the user's own files contradict."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from engram.cli.main import engram
from engram.enums import Actor, Scope
from engram.memories.save import save_memory
from engram.models.open_memory import open_store
from engram.notes.user_files import read_standing_files
from engram.redaction import redact
from engram.settings import Settings


def test_a_memory_that_a_file_contradicts_is_listed_until_one_of_them_changes(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    settings.places.prepare()
    rules = tmp_path / "claude" / "CLAUDE.md"
    rules.parent.mkdir(exist_ok=True)
    rules.write_text("The walrus proxy listens on port 7070.\n")

    def run(*words: str) -> str:
        flags = ["--home", str(settings.home), "--claude-folder", str(settings.claude_folder)]
        result = CliRunner().invoke(engram, [*flags, "review", *words])
        assert result.exit_code == 0
        return result.stdout

    with open_store(settings.places.memory_db) as store:
        memory = save_memory(
            store, "The walrus proxy listens on port 9090.", redact, scope=Scope.GLOBAL, actor=Actor.USER
        )
        read_standing_files(store, settings, redact)
    says = "~/.claude/CLAUDE.md: The walrus proxy listens on port 7070."
    assert memory.episode_id in run()
    assert f"but {says}" in run()
    (listed,) = json.loads(run("--json"))["of_files"]
    assert (listed["memory"]["id"], listed["file_says"]) == (memory.episode_id, says)

    rules.write_text("The walrus proxy listens on port 9090 now.\n")
    with open_store(settings.places.memory_db) as store:
        read_standing_files(store, settings, redact)
    assert json.loads(run("--json"))["of_files"] == []
