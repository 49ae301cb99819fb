"""A fix made with Codex is recalled in Claude Code: rollout, memory, worker and hook are the real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hook_runs import Hooks, Payload

from engram.cli.main import engram
from engram.models.open_memory import open_store
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import load
from engram.tasks.runtime import Runtime
from engram.worker.socket_server import RecallServer
from tests.repositories import Repository
from tests.rollouts import SESSION, Rollout

ERROR = "pg_dump: error: aborting because of server version mismatch"
CAUSE = (
    "The root cause: the nightly backup calls pg_dump 15 from PATH while the harbour database runs Postgres 16. "
    "I fixed it by calling /usr/lib/postgresql/16/bin/pg_dump in backup.sh."
)
PROMPT = "The nightly backup fails with a version mismatch: do we call pg_dump by its full path, or from PATH?"


@pytest.fixture
def run(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs ``engram …`` on the hooks' memory; returns its JSON."""
    monkeypatch.setenv("ENGRAM_HOME", str(hooks.home.root))
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")

    def invoke(*arguments: str) -> Any:
        result = CliRunner().invoke(engram, [*arguments, "--json"])
        assert result.exit_code == 0 or arguments == ("doctor",), (result.output, result.exception)
        return json.loads(result.stdout)

    return invoke


def fix_with_codex(folder: Path, project: Path) -> None:
    """A session of Codex that finds out why the backup fails, and repairs it."""
    rollout = Rollout(folder, cwd=str(project)).head()
    rollout.user("The nightly backup is broken since the database was upgraded, please find out why and fix it.")
    rollout.run("./backup.sh", ERROR, 1)
    rollout.patch(
        "*** Begin Patch\n*** Update File: backup.sh\n@@\n-pg_dump\n+/usr/lib/postgresql/16/bin/pg_dump\n*** End Patch"
    )
    rollout.run("./backup.sh", "backup of harbour done")
    rollout.says(CAUSE)
    rollout.user("From now on always call pg_dump by its full path, never from PATH.")
    rollout.says("Understood, always by its full path.")
    rollout.end()


def test_a_fix_made_with_codex_is_recalled_in_claude_code(
    hooks: Hooks, run: Callable[..., Any], payload: Payload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    project = Repository.make(tmp_path / "harbour").root
    fix_with_codex(tmp_path / "codex", project)
    run("up", "--once")
    monkeypatch.chdir(project)

    settings = load().settings
    with open_store(settings.places.memory_db) as store:
        searcher = Searcher(store, settings)
        server = RecallServer(
            Runtime(settings, store, searcher, RecollectionService(store, searcher, settings))
        ).start()
        try:
            prompted = payload("UserPromptSubmit-0") | {"prompt": PROMPT, "cwd": str(project)}
            told = hooks.run("UserPromptSubmit", prompted).context
            elsewhere = hooks.run("UserPromptSubmit", prompted | {"cwd": str(tmp_path), "prompt_id": "p2"})
        finally:
            server.close()

    assert "pg_dump" in told
    assert "full path" in told or "Postgres 16" in told
    assert elsewhere.is_silent
    hits = run("recall", "why does pg_dump abort with a version mismatch", "--project", ".")["hits"]
    assert {hit["resume"] for hit in hits if hit["kind"] != "note"} == {f"codex resume {SESSION}"}
    assert run("status")["agents"] == {"codex": 1}
    (checked,) = [check for check in run("doctor")["checks"] if check["name"] == "transcripts"]
    assert checked["state"] == "ok"
    assert checked["detail"] == f"1 file in {tmp_path / 'codex' / 'sessions'} (Codex)"
    (session,) = run("sessions")["sessions"]
    assert (session["id"], session["agent"]) == (SESSION, "codex")
    (found,) = run("fix", ERROR, "--project", ".")["fixes"]
    assert found["resume"] == f"codex resume {SESSION}"
