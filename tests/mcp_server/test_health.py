"""A watcher that died is said everywhere: by memory_status, by the briefing, by status and doctor. Real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import wait_for

from engram.errors import StoreError
from engram.models.open_memory import open_store
from engram.recollection.session_briefing import dead_line
from engram.reports.health import MAX_LAG_SECONDS, take_vitals
from engram.reports.processes import is_held
from engram.settings import Settings
from engram.setup.edits.journal import Journal, Phase, save_journal
from engram.worker.worker_client import ask_worker
from engram_hooks.block import link_interpreter, settings_block
from engram_mcp import tools
from engram_mcp.access import Access

PATIENCE_SECONDS = 60


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    made.places.prepare()
    made.projects_folder.mkdir(parents=True)
    return made


@pytest.fixture
def start(settings: Settings) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts ``engram service run watcher`` or ``engram service run worker``; none is left behind."""
    processes = []

    def begin(command: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"ENGRAM_EMBEDDING_MODEL": "hashed"}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engram.cli.main", "service", "run", command], env=environment
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait(PATIENCE_SECONDS)


def briefing(settings: Settings, folder: Path) -> str:
    """What the hook of a new session prints."""
    link_interpreter(settings.places)
    command = settings_block(interpreter=sys.executable)["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    payload = {
        "hook_event_name": "SessionStart",
        "session_id": str(uuid.uuid4()),
        "cwd": str(folder),
        "source": "startup",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        input=json.dumps(payload).encode(),
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"], "ENGRAM_HOME": str(settings.home)},
    )
    return done.stdout.decode()


def test_a_dead_watcher_is_said_by_the_tools_and_the_briefing(
    settings: Settings, start: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    start("worker")
    watcher = start("watcher")
    wait_for(lambda: is_held(settings.places.watcher_lock))
    wait_for(lambda: ask_worker(settings.places, {"op": "status"}) is not None)
    access = Access(settings, str(tmp_path))

    assert "watcher: running, pid" in tools.status(access)
    assert "watcher" not in briefing(settings, tmp_path)

    watcher.kill()
    watcher.wait(PATIENCE_SECONDS)

    assert "worker: running, pid" in tools.status(access)
    assert "watcher: not running" in tools.status(access)
    # On a busy machine the first hooks may give up before their answer.
    said = f"its watcher is not running. The user starts it with `engram --home {settings.home} up`"
    wait_for(lambda: said in briefing(settings, tmp_path))


def test_where_the_service_is_installed_nobody_is_told_to_start_it_in_a_terminal(
    settings: Settings, tmp_path: Path
) -> None:
    save_journal(settings.places, Journal(phase=Phase.INSTALLED))
    access = Access(settings, str(tmp_path))

    with pytest.raises(StoreError, match="Tell the user to run `engram service start`"):
        tools.status(access)
    settings.places.watcher_lock.touch()
    with open_store(settings.places.memory_db) as store:
        briefing_line = " ".join(dead_line(store, settings))

    for said in (tools.status(access), tools.recall(access, "the lamp"), briefing_line):
        assert "service start`" in said
        assert " up`" not in said


def test_lag_and_failures_are_told_alike(settings: Settings, tmp_path: Path) -> None:
    from engram.models.engine.meta import put_meta
    from engram.models.engine.migrations import MADE_AT
    from engram.models.work.task_runs import note_failure
    from engram.models.work.work import make_due

    unread = settings.projects_folder / "slug" / f"{uuid.uuid4()}.jsonl"
    unread.parent.mkdir()
    unread.write_text("{}\n")
    long_ago = time.time() - 2 * MAX_LAG_SECONDS
    os.utime(unread, (long_ago, long_ago))
    with open_store(settings.places.memory_db) as store:
        with store.transaction() as tx:
            put_meta(tx, MADE_AT, str(store.now_ms() - 60_000 * MAX_LAG_SECONDS))
            make_due(tx, "extract", "s-1", store.now_ms() - 3 * 1000 * MAX_LAG_SECONDS)
        note_failure(store, "embed", "the model is broken")
        troubles = {trouble.about: trouble for trouble in take_vitals(store, settings).troubles()}

    assert set(troubles) == {"watcher", "worker", "ingest", "extract", "embed"}
    assert (troubles["ingest"].is_broken, troubles["embed"].is_broken) == (False, True)
    answer = tools.status(Access(settings, str(tmp_path)))
    assert "ingest: is 0.3 h behind" in answer
    assert "extract: is 0.5 h behind" in answer
    assert "embed: the model is broken" in answer
    command = [sys.executable, "-P", "-m", "engram.cli.main", "doctor", "--json"]
    checks = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)["checks"]
    said = {check["name"]: check["detail"] for check in checks}
    assert {f"stage {name}": troubles[name].text for name in ("ingest", "extract", "embed")}.items() <= said.items()
