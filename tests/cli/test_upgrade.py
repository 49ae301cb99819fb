"""A new version over a living installation: memory.db is only changed by who may do that, with a copy made first."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from processes import fall_silent

from engram.cli import main
from engram.cli.main import engram
from engram.errors import OlderSchema
from engram.models.engine.migrations import newest_version
from engram.models.memories import memory_records
from engram.models.open_memory import open_store
from engram.models.rescue.backup import drop_database, list_backups, make_backup
from engram.models.rescue.soundness import find_all_damage
from engram.paths import Home
from engram.reports.processes import processes_of_other_code
from engram.settings import Settings
from engram.setup.doctor import machine_checks
from engram.setup.services import service_plan
from engram.system.process_lock import ProcessLock
from engram.vaults import Vault, write_vault
from engram.version import code_version, install_command
from engram.watcher import watch as watcher
from engram.worker.memory_file import open_or_set_aside, upgrade_memory
from tests.cli.conftest import Run
from tests.forked import run_forked
from tests.models.version_1 import FORGOTTEN, PINNED, REPLACED, SAVED, put_version
from tests.models.version_4 import put_version_4, read_rows

#: Commands that open the memory, each with arguments that a parser takes.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("status", "--json"),
    ("recall", "crane"),
    ("search", "crane"),
    ("expand", "ep_1"),
    ("why", "ep_1"),
    ("where",),
    ("timeline",),
    ("save", "The crane is green.", "--global"),
    ("edit", "ep_1", "--summary", "x"),
    ("pin", "ep_1"),
    ("feedback", "ep_1", "wrong"),
    ("undo", "ep_1"),
    ("forget", "ep_1", "--yes"),
    ("contradictions",),
    ("report",),
    ("sessions",),
    ("projects",),
    ("tasks",),
    ("cost",),
    ("pause",),
    ("consolidate",),
    ("purge", "ep_1", "--yes"),
    ("export",),
    ("ingest",),
    ("hub", "status"),
    ("doctor",),
)
UPGRADE = (
    "import sys; from pathlib import Path; from engram.settings import Settings; from engram.worker.memory_file import "
    "upgrade_memory; s = Settings(home=Path(sys.argv[1])); upgrade_memory(s.places, s)"
)
#: Holds a lock as a process of another version does, until its input ends.
HOLD = (
    "import sys; from pathlib import Path; from engram.system.process_lock import ProcessLock; "
    "lock = ProcessLock(Path(sys.argv[1]), sys.argv[2]); print('held', flush=True); sys.stdin.read()"
)


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


@pytest.fixture
def old(home: Home) -> Path:
    """A memory.db of an earlier version in the memory folder of the test."""
    return put_version_4(home.prepare().memory_db)


@pytest.fixture(params=["0.0.9+0ld", ""])
def held(request: pytest.FixtureRequest, home: Home) -> Iterator[subprocess.Popen[str]]:
    """A watcher of another version, which names its code or does not."""
    with hold(home.watcher_lock, str(request.param)) as process:
        yield process
        process.kill()


def hold(lock: Path, code: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(lock), code]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_leaves_the_memory_of_an_earlier_version_and_says_so_in_a_line(
    old: Path, arguments: tuple[str, ...]
) -> None:
    rows = read_rows(old, "episode")

    result = CliRunner().invoke(engram, list(arguments))

    assert result.exit_code == 1, result.output
    said = [line for line in result.output.splitlines() if "earlier version of Engram" in line]
    assert len(said) == 1
    assert "engram install" in said[0]
    if arguments != ("doctor",):
        assert [line for line in result.output.splitlines() if "the old word still works" not in line] == said
    assert version_of(old) == 4
    assert read_rows(old, "episode") == rows
    assert list_backups(old.parent / "backups") == []


def test_a_changed_setting_restarts_no_process_of_an_earlier_version(
    old: Path, held: subprocess.Popen[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarted: list[Settings] = []
    monkeypatch.setattr(service_plan, "restart_if_running", lambda settings: restarted.append(settings) or True)

    for words in (("set", "bites", "1"), ("unset", "bites")):
        said = run("config", *words).stderr
        assert "keep the former setting until they are replaced: memory.db was written by an earlier version" in said
        assert "install`" in said

    assert restarted == []
    assert version_of(old) == 4


def test_up_makes_a_copy_first_which_restore_names_as_the_way_back(
    old: Path, run: Run, run_json: Any, home: Home
) -> None:
    saved = {row["episode_id"] for row in read_rows(old, "episode") if row["source"] == "manual"}

    result = run("up", "--once", "--json")

    (copy,) = list_backups(home.backups)
    assert copy.upgraded_from == 4
    assert f"engram restore {copy.path.name}" in result.stderr
    assert version_of(copy.path) == 4
    assert version_of(old) == newest_version()
    assert "going back to the version" in run("restore", "--list").output
    (listed,) = run_json("restore", "--list")["backups"]
    assert (listed["path"], listed["upgraded_from"]) == (str(copy.path), 4)
    assert saved <= {row["episode_id"] for row in read_rows(old, "episode")}
    assert "was upgraded" not in run("up", "--once", "--json").stderr


@pytest.mark.parametrize("arguments", [("up",), ("up", "--once"), ("work",)], ids=" ".join)
def test_nothing_changes_the_memory_while_a_process_of_another_version_runs(
    old: Path, held: subprocess.Popen[str], run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr("engram.worker.memory_file.OTHERS_SECONDS", 0.0)

    if arguments == ("work",):
        settings = Settings(home=old.parent)
        with pytest.raises(OlderSchema, match=rf"watcher \(pid {held.pid},.*engram install"):
            open_or_set_aside(settings.places, settings)
    else:
        said = run(*arguments, code=1).output.splitlines()[-1]
        assert f"watcher (pid {held.pid}" in said
        assert "engram install" in said

    assert held.poll() is None
    assert version_of(old) == 4
    assert list_backups(old.parent / "backups") == []


def test_a_process_of_the_same_code_or_this_one_is_no_other(home: Home) -> None:
    home.prepare()
    own = ProcessLock(home.worker_lock, "0.0.9+0ld")
    with hold(home.watcher_lock, code_version()) as same, hold(home.supervisor_lock, "0.0.9+0ld") as other:
        found = processes_of_other_code(home)
        same.kill()
        other.kill()
    own.release()

    assert [(process.name, process.pid, process.code) for process in found] == [("supervisor", other.pid, "0.0.9+0ld")]


def test_a_service_ends_its_own_watcher_of_another_version(old: Path, held: subprocess.Popen[str]) -> None:
    settings = Settings(home=old.parent)

    # This process started the watcher; for the worker, a supervisor has started both.
    command = UPGRADE.replace("upgrade_memory(s.places, s)", "open_or_set_aside(s.places, s, is_service=True).close()")
    command = command.replace("import upgrade_memory", "import open_or_set_aside")
    subprocess.run([sys.executable, "-c", command, str(settings.home)], check=True)

    assert held.wait() == -signal.SIGKILL
    assert version_of(old) == newest_version()
    assert [copy.upgraded_from for copy in list_backups(settings.places.backups)] == [4]


def test_a_watcher_waits_for_the_worker_to_bring_the_memory_up_to_date(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=old.parent)
    lock = ProcessLock(settings.places.watcher_lock, code_version())
    has_waited = threading.Event()
    monkeypatch.setattr(watcher.time, "sleep", lambda _: has_waited.set())
    opened: list[int] = []

    def wait() -> None:
        with watcher._open_when_upgraded(settings, settings.places, lock) as store:
            opened.append(store.schema_version())

    thread = threading.Thread(target=wait)
    thread.start()
    assert has_waited.wait(60)
    assert opened == []
    upgrade_memory(settings.places, settings)
    thread.join(60)
    lock.release()

    assert opened == [newest_version()]


def test_daily_backups_leave_the_way_back_and_a_new_upgrade_replaces_it(settings: Settings) -> None:
    places = settings.places
    for version in (1, 2, 3, 3):
        put_version(places.memory_db, version)
        upgrade_memory(places, settings)
        drop_database(places.memory_db)
    put_version_4(places.memory_db)
    upgrade_memory(places, settings)

    with open_store(places.memory_db) as store:
        for _ in range(3):
            make_backup(store, places.backups)

    found = [copy.upgraded_from for copy in list_backups(places.backups)]
    assert sorted(version for version in found if version) == [3, 4]


@pytest.mark.parametrize("point", ["migrate.begin", "migrate.step"])
def test_a_kill_at_any_moment_of_an_upgrade_leaves_one_version_or_the_other(tmp_path: Path, point: str) -> None:
    for count in (1,) if point == "migrate.begin" else (1, 2, 30, 60, 100, 119):
        home = Home(tmp_path / f"home-{count}").prepare()
        put_version(home.memory_db, 1 + count % 3)
        version = version_of(home.memory_db)

        def upgrade(home: Home = home) -> None:
            upgrade_memory(home, Settings(home=home.root))

        assert run_forked(upgrade, f"{point}:{count}") == -signal.SIGKILL
        assert version_of(home.memory_db) == version

        assert run_forked(upgrade) == 0

        assert version_of(home.memory_db) == newest_version()
        assert [copy.upgraded_from for copy in list_backups(home.backups)] == [version]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("is_of_first_days", [False, True])
def test_versions_from_before_the_first_release_lose_nothing_and_bring_nothing_back(
    settings: Settings, version: int, is_of_first_days: bool
) -> None:
    put_version(settings.places.memory_db, version, is_of_first_days=is_of_first_days and version == 1)

    upgrade_memory(settings.places, settings)

    with open_store(settings.places.memory_db) as store:
        assert find_all_damage(store) == ""
        assert store.value("SELECT count(*) FROM pragma_foreign_key_check") == 0
        kept = {name: memory_records.find_memory(store, name) for name in (SAVED, PINNED, REPLACED)}
        assert kept[SAVED].content.startswith("The ferry leaves at seven; the harbour master")
        assert kept[PINNED].is_pinned
        assert kept[REPLACED].status == "active", "what replaced it was forgotten"
        keys = {bytes(key) for (key,) in store.rows("SELECT key FROM tombstone")}
        assert FORGOTTEN.encode() in keys
        assert store.rows("SELECT scope, until_ms FROM pause")[0][1] == 99
        assert store.value("SELECT text FROM said") == "Why does the ferry wait for fog?"
        assert store.value("SELECT bytes_read FROM transcript") == 90
        assert store.value("SELECT ledger_ms FROM spend") == 7


def test_the_report_of_a_backup_says_whether_it_is_the_way_back(old: Path, run: Run) -> None:
    run("up", "--once", "--json")
    with open_store(old) as store:
        make_backup(store, old.parent / "backups")

    listed = json.loads(run("restore", "--list", "--json").stdout)["backups"]

    assert sorted(backup["upgraded_from"] or 0 for backup in listed) == [0, 4]


def test_status_says_plainly_that_engram_is_off_and_that_other_code_runs(
    run: Run, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "OFF: nothing is read, and Claude is shown nothing. Engram is not installed. Run: engram install"
        in run("status").output
    )
    home.supervisor_lock.write_text(f"1\n{code_version()}\n\n1.0\n")  # as a supervisor that was killed leaves it
    assert "its supervisor is no longer running" in run("status").output
    with hold(home.worker_lock, "0.0.9+0ld") as other:
        said = run("status").output
        fall_silent(home.worker_lock, 90)
        busy = run("status").output
        fall_silent(home.worker_lock, 400)
        silent = run("status").output
        monkeypatch.setattr(machine_checks, "terminal_run", lambda places: 77)
        beside_up = run("status").output
        other.kill()

    assert "OFF" not in said
    assert "with code other than what is installed now: run `engram install`" in said
    assert "no sign of life" not in said
    assert "no sign of life" not in busy  # such as during a long backup
    assert re.search(r"no sign of life for 40\d s: run: engram service restart", " ".join(silent.split()))
    assert re.search(r"for 40\d s: `engram up` \(pid 77\) .* press Ctrl-C there", " ".join(beside_up.split()))


def test_a_worker_of_another_container_is_said_to_be_there(run: Run, home: Home) -> None:
    run("up", "--once", "--json")
    with open_store(home.memory_db) as store:
        make_backup(store, home.backups)
    lock = ProcessLock(home.worker_lock)
    home.worker_lock.write_text(f"1\n{code_version()}\npid:[1]\n")
    by_service = run("service", "status", code=1).output

    assert "another container" in by_service.splitlines()[0]
    assert "running, pid 1 in another container, but it does not answer" in " ".join(run("status").output.split())
    assert "running, pid 1 in another container" in run("doctor", code=1).output
    assert "In another container: worker 1." in run("service", "stop").output
    assert "running (pid 1 in another container). Stop it there first" in run("restore", "--yes", code=1).output
    lock.release()


@pytest.mark.parametrize("beat", ["", "-400"])
def test_nobody_is_told_to_change_here_what_runs_in_another_container(run: Run, home: Home, beat: str) -> None:
    run("up", "--once", "--json")
    lock = ProcessLock(home.worker_lock)
    home.worker_lock.write_text(f"1\n0.0.9+0ld\npid:[1]\n{beat and time.monotonic() + float(beat)}\n")

    status = " ".join(run("status").output.split())
    findings = {one["name"]: one for one in json.loads(run("doctor", "--json", code=1).stdout)["checks"]}
    lock.release()

    found = findings["worker's heartbeat" if beat else "worker's version"]
    assert (found["command"], found["fix"]) == ("", "")
    assert found["advice"].startswith("restart that container" if beat else "install the same version there")
    assert "run `engram install`" not in status
    assert "engram service restart" not in status
    assert findings["service"]["state"] == "ok"


def test_a_missing_module_without_a_name_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("there is no such codec")

    monkeypatch.setattr(main.engram, "main", fail)

    with pytest.raises(SystemExit) as ended:
        main.main(["status"])

    assert ended.value.code == 70
    assert "None" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["peewee", "tomlkit.items", "mcp.server.fastmcp"])
def test_packages_that_an_updated_checkout_lacks_are_not_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(main.engram, "main", fail)

    with pytest.raises(SystemExit) as ended:
        main.main(["status"])

    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert f"needs another version of {name}" in said
    assert "-m pip install -e " in said
    assert "engram install" in said


def test_an_own_module_that_half_an_update_lacks_is_not_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'engram.consolidation'", name="engram.consolidation")

    monkeypatch.setattr(main.engram, "main", fail)

    with pytest.raises(SystemExit) as ended:
        main.main(["status"])

    assert ended.value.code == 1
    assert "engram.consolidation is missing" in capsys.readouterr().err


def test_a_package_of_the_hub_is_said_to_be_an_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

    monkeypatch.setattr(main.engram, "main", fail)

    with pytest.raises(SystemExit):
        main.main(["hub", "members"])

    assert f"run: {install_command('hub')}\n" in capsys.readouterr().err


def test_a_setting_of_a_vault_is_written_where_it_is_read(run: Run, home: Home) -> None:
    vault = Vault("harbor", ("/dev/lab/harbor",), home.prepare().root / "vaults" / "harbor", is_sealed=True)
    write_vault(vault)

    run("--vault", "harbor", "config", "set", "recall_limit", "7")
    assert run("--vault", "harbor", "config", "recall_limit").output == "7\n"
    run("--home", str(vault.folder), "config", "set", "recall_limit", "8")

    assert run("config", "recall_limit").output == "8\n"
    assert not vault.home.config_file.exists()
    run("--home", str(vault.folder), "config", "unset", "recall_limit")
    assert "recall_limit" not in home.config_file.read_text()
