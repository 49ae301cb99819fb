"""Each fault is made for real; the doctor names it with the command that mends it, and is quiet without the fault."""

from __future__ import annotations

import json
import os
import plistlib
import shlex
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from transcript_lines import say

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Scope
from engram.ingest.read_sources import ingest_path
from engram.memories.save import save_memory
from engram.models.engine.database import SAFE_SQLITE, sqlite_version
from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.models.rescue.backup import drop_database, make_backup
from engram.redaction import redact
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings, config_state, load
from engram.setup.doctor import machine_checks
from engram.setup.doctor.machine_checks import find_programs
from engram.setup.edits.journal import Journal, Ledger, Phase, StepRecord, save_journal
from engram.setup.services.launchd import Launchd
from engram.setup.services.systemd import Systemd
from engram.system.process_lock import ProcessLock
from engram.worker.worker_client import WorkerStatus
from engram_hooks.block import settings_block
from tests.doctor.conftest import Doctor
from tests.earlier_machine import LABEL, make_machine
from tests.services.conftest import StandIns

#: A user that is not root, for what root may do anyway.
NOBODY = 65534


def test_a_machine_without_faults_beyond_its_setup_has_no_other_finding(doctor: Doctor) -> None:
    assert {name for name, finding in doctor.findings().items() if finding["state"] != "ok"} == {
        "watcher",
        "worker",
        "model",
        "hooks",
        "hooks' interpreter",
        "MCP server",
        "permission",
        "service",
    }


def test_another_program_of_the_name_is_told_from_another_installation(
    doctor: Doctor, make_program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert doctor.findings()["command"]["state"] == "ok"
    make_program("bin", "#!/bin/sh\necho another engram\n")
    assert "Engram comes first" in doctor.findings()["other program"]["detail"]

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    finding = doctor.findings()["other program"]
    assert (finding["state"], finding["command"]) == ("warn", "engram-recall doctor")
    assert "command" not in doctor.findings()

    other = tmp_path / "other"
    venv.create(other, with_pip=False, symlinks=True)
    script = Path(sys.executable).with_name("engram").read_text().replace(sys.executable, str(other / "bin/python"))
    make_program("bin", script)
    finding = doctor.findings()["two installations"]
    assert finding["command"] == f"{other / 'bin/python'} -m pip uninstall engram-recall"
    assert Path(shlex.split(finding["command"])[0]).exists()
    make_program("tools/uv/tools/engram-recall/bin", script.replace(str(other), "/x/uv/tools/engram-recall"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools/uv/tools/engram-recall/bin'}:/usr/bin")
    assert doctor.findings()["two installations"]["command"] == "uv tool uninstall engram-recall"


def test_one_file_behind_several_links_is_one_program(make_program: Callable[[str, str], Path], tmp_path: Path) -> None:
    path = make_program("bin", "#!/bin/sh\n")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "engram").symlink_to(path)

    programs = find_programs({"PATH": f"{tmp_path}/links:{tmp_path}/bin:relative:{tmp_path}/nowhere"})

    assert [program.path for program in programs] == [tmp_path / "links" / "engram"]


@pytest.mark.parametrize("target", ["/bin/sh", "/nowhere/python"])
@pytest.mark.parametrize("by_fix", [True, False])
def test_hooks_of_another_interpreter_get_this_one(doctor: Doctor, target: str, by_fix: bool) -> None:
    doctor.write_claude("settings.json", settings_block())
    doctor.home.python_link.symlink_to(target)
    finding = doctor.findings()["hooks' interpreter"]
    assert finding["state"] == ("warn" if target == "/bin/sh" else "bad")

    if by_fix:
        assert any("this interpreter" in line for line in doctor.fix())
    else:
        doctor.type_command(finding)

    assert "hooks' interpreter" not in doctor.findings()
    assert os.path.realpath(doctor.home.python_link) == os.path.realpath(sys.executable)


def test_hooks_in_settings_behind_a_link_are_seen(doctor: Doctor) -> None:
    assert "hooks" in doctor.findings()
    doctor.write_claude("dotfiles.json", settings_block())
    (doctor.claude / "settings.json").symlink_to("dotfiles.json")

    assert "missing" not in doctor.findings().get("hooks", {}).get("detail", "")


def test_a_server_of_another_interpreter_is_named(doctor: Doctor) -> None:
    server = ["-m", "engram_mcp.server"]
    doctor.write_claude(".claude.json", {"mcpServers": {"engram": {"command": "/bin/sh", "args": server}}})
    finding = doctor.findings()["MCP server's interpreter"]
    assert "/bin/sh" in finding["detail"]

    doctor.write_claude(".claude.json", {"mcpServers": {"engram": {"command": sys.executable, "args": server}}})
    assert "MCP server's interpreter" not in doctor.findings()


def test_a_half_done_installation_is_named(doctor: Doctor) -> None:
    steps = [StepRecord(name="service", summary="Start", is_done=True), StepRecord(name="plugin", summary="Connect")]
    save_journal(doctor.home, Journal(phase=Phase.INSTALLING, ledger=Ledger(steps=steps)))

    finding = doctor.findings()["installation"]

    assert (finding["state"], finding["command"]) == ("bad", "engram install")
    assert "Completed steps: service; remaining steps: plugin" in finding["detail"]
    save_journal(doctor.home, Journal(phase=Phase.UNINSTALLING, ledger=Ledger(steps=steps)))
    assert doctor.findings()["installation"]["command"] == "engram uninstall"
    save_journal(doctor.home, Journal(phase=Phase.INSTALLED, ledger=Ledger(steps=steps)))
    assert "installation" not in doctor.findings()


def test_an_earlier_engram_that_is_active_is_named(doctor: Doctor) -> None:
    assert "earlier Engram" not in doctor.findings()
    make_machine(doctor.user, doctor.user / ".claude-memory", doctor.claude, [])

    finding = doctor.findings()["earlier Engram"]

    assert (finding["state"], finding["command"]) == ("bad", "engram install")
    assert LABEL in finding["detail"]


def test_service_files_of_another_installation_or_folder_are_named(
    doctor: Doctor, stand_ins: StandIns, write_files: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "nothing starts" in doctor.findings()["service"]["detail"]
    system = Systemd(load().settings)
    write_files(system)
    assert doctor.findings()["service"]["state"] == "ok"

    unit = system.files()[0].path
    text = unit.read_text()
    unit.write_text(text.replace(sys.executable, "/opt/old/python"))
    finding = doctor.findings()["service file"]
    assert "names another interpreter" in finding["detail"]
    assert finding["command"] == "engram install"
    unit.write_text(text.replace(str(doctor.claude), "/elsewhere"))
    assert "configuration folder" in doctor.findings()["service file"]["detail"]
    unit.unlink()
    assert doctor.findings()["service file"]["state"] == "bad"
    unit.write_text(text)

    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 22")
    assert doctor.findings()["linger"]["command"] == "loginctl enable-linger"
    stand_ins.put("refused")
    assert "can't be checked" in doctor.findings()["service"]["detail"]


@pytest.mark.parametrize("system", [Launchd, Systemd])
def test_a_service_file_for_a_folder_with_an_awkward_name_is_right(
    doctor: Doctor,
    stand_ins: StandIns,
    write_files: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    system: type[Launchd] | type[Systemd],
) -> None:
    monkeypatch.setenv("ENGRAM_HOME", str(doctor.user / '100% r&d <"mine"> $x'))
    write_files(system(load().settings))

    assert doctor.findings()["service"]["state"] == "ok"
    assert "service file" not in doctor.findings()


def test_where_nothing_can_start_them_at_login_sessions_may(doctor: Doctor, stand_ins: StandIns) -> None:
    stand_ins.put("state", "offline")
    stand_ins.put("no-desktop")
    assert doctor.findings()["service"]["command"] == "engram install", "it asks whether sessions may"
    doctor.write_claude("settings.json", settings_block())
    finding = doctor.findings()["service"]
    assert (finding["state"], finding["command"]) == ("warn", "engram config set start_with_session true")

    doctor.type_command(finding)

    assert doctor.findings()["service"]["state"] == "ok"


def test_an_agent_of_another_installation_is_named(
    doctor: Doctor, stand_ins: StandIns, write_files: Callable[..., None]
) -> None:
    system = Launchd(load().settings)
    write_files(system)
    assert doctor.findings()["service"]["detail"] == "launchd"

    path = system.files()[1].path
    agent = plistlib.loads(path.read_bytes())
    path.write_bytes(plistlib.dumps(agent | {"ProgramArguments": ["/opt/old/python", "watch"]}))

    assert "names another interpreter" in doctor.findings()["service file"]["detail"]


def test_a_memory_folder_that_others_may_read_is_closed(doctor: Doctor) -> None:
    (doctor.home.logs / "worker.log").write_text("x")
    (doctor.home.logs / "worker.log").chmod(0o644)
    finding = doctor.findings()["memory folder"]
    assert finding["command"] == f"chmod -R go-rwx {doctor.home.root}"
    # Nobody gets to the file as long as the folder is closed.
    assert finding["state"] == "warn"

    assert any("other users" in line for line in doctor.fix())

    assert doctor.findings()["memory folder"]["state"] == "ok"


def test_a_memory_that_was_deleted_while_its_backup_exists_is_named_and_restored(doctor: Doctor) -> None:
    with open_store(doctor.home.memory_db) as store:
        save_memory(store, "We ship on Mondays.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
        made = make_backup(store, doctor.home.backups)
    assert "earlier memory" not in doctor.findings()
    drop_database(doctor.home.memory_db)

    finding = doctor.findings()["memory.db"]

    assert "there are backups of it" in finding["detail"]
    assert "engram restore --new" in finding["advice"]
    doctor.type_command({**finding, "command": f"{finding['command']} --new"})
    earlier = doctor.findings()["earlier memory"]
    assert made.path.name in earlier["detail"]
    doctor.type_command({**earlier, "command": f"{earlier['command']} --yes"})
    assert "earlier memory" not in doctor.findings()
    with open_store(doctor.home.memory_db) as store:
        assert [memory.content for memory in all_memories(store)] == ["We ship on Mondays."]


@pytest.mark.parametrize("is_flag", [True, False])
def test_a_folder_without_a_memory_is_named_with_what_makes_one(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_flag: bool
) -> None:
    typo = tmp_path / "typo"
    if not is_flag:
        monkeypatch.setenv("ENGRAM_HOME", str(typo))

    findings = doctor.findings(*(["--home", str(typo)] if is_flag else []))

    finding = findings["memory folder"]
    assert finding["detail"] == f"there is no memory in {typo}"
    assert finding["command"] == (f"engram --home {typo} install" if is_flag else "engram install")
    assert finding["advice"].startswith(f"run: {finding['command']}; or correct ENGRAM_HOME")
    assert findings.keys().isdisjoint({"unwritable", "hooks' interpreter"})
    assert not typo.exists()


def test_the_default_folder_without_a_memory_needs_an_installation(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENGRAM_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "new"))

    finding = doctor.findings()["memory folder"]

    assert (finding["detail"], finding["advice"]) == (
        f"there is no memory in {tmp_path / 'new' / '.claude-memory'}",
        "run: engram install",
    )


def test_each_line_of_config_toml_that_is_wrong_is_named_and_the_rest_is_checked(doctor: Doctor) -> None:
    doctor.findings()
    lines = [
        'embedding_model = "hashed"',
        "# mine",
        "bites = -1",
        "inject = false",
        "colour = 3",
        '"log_level" = "loud"',
    ]
    doctor.home.config_file.write_text("\n".join(lines))

    result = doctor.run("doctor", "--json")

    checks = json.loads(result.stdout)["checks"]
    found = [check for check in checks if check["name"] == "config.toml"]
    path = doctor.home.config_file
    assert [check["detail"] for check in found] == [
        f"line 3 of {path}: the setting bites = -1 must not be negative",
        f"line 5 of {path}: unknown setting 'colour'",
        f"line 6 of {path}: the setting log_level = 'loud' must be one of debug, info, warning, error",
    ]
    assert {check["name"]: check["state"] for check in checks}["memory.db"] == "ok"
    assert "inject" in next(check["detail"] for check in checks if check["name"] == "switched off")
    for check in found:
        doctor.type_command(check)
    assert "config.toml" not in doctor.findings()


def test_a_setting_of_an_earlier_version_has_no_effect_and_is_named(doctor: Doctor) -> None:
    doctor.findings()
    doctor.home.config_file.write_text('ranking = "classic"\nbites = 2\ntopic_threshold = 0.9\n')

    assert doctor.run("config", "bites").stdout == "2\n"
    finding = doctor.findings()["config.toml"]

    assert (finding["state"], finding["command"]) == ("warn", "engram config unset topic_threshold")
    assert finding["detail"].startswith(f"line 3 of {doctor.home.config_file}: ")


def test_a_config_toml_that_cannot_be_read_is_named_and_nothing_is_started(doctor: Doctor) -> None:
    assert "service" in doctor.findings()
    doctor.home.config_file.write_text("bites = 2\nbites = = 3\n")

    fixed, findings = doctor.fix(), doctor.findings()

    assert "at line 2, column 9" in findings["config.toml"]["detail"]
    assert "Until then, no part of Engram can start" in findings["config.toml"]["advice"]
    assert "service" not in findings  # whether sessions may start it is in the file
    assert findings["worker"]["fix"] == "start"
    assert not [line for line in fixed if "start" in line]
    assert "bad  config.toml: can't be read" in doctor.run("doctor", "--report").stdout


def test_a_memory_folder_that_cannot_be_written_is_named(doctor: Doctor) -> None:
    doctor.findings()
    for path in (doctor.home.root, *doctor.home.root.rglob("*")):
        os.chown(path, NOBODY if os.geteuid() == 0 else -1, -1, follow_symlinks=False)
    doctor.home.root.chmod(0o500)
    # From within: another user may not enter the folder of the tests.
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from engram.setup.doctor.machine_checks import check_writable\n"
        "from engram.setup.doctor.machine_checks import Machine\n"
        "from engram.settings import Settings\n"
        "if os.geteuid() == 0:\n"
        f"    os.setuid({NOBODY})\n"
        "for check in check_writable(Machine(Settings(home=Path('.')), Path('/'))):\n"
        "    print(check.state, check.detail, check.command, sep='|')\n"
    )

    def look() -> str:
        command, folder = [sys.executable, "-c", code], doctor.home.root
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True).stdout

    state, detail, command = look().strip().split("|")
    assert state == "bad"
    assert "can't be written" in detail
    assert command == "chmod -R u+rwX ."
    subprocess.run(shlex.split(command), cwd=doctor.home.root, check=True, timeout=60)
    assert look() == ""


def test_rounds_that_fail_are_named_with_their_reason_until_one_succeeds(doctor: Doctor, tmp_path: Path) -> None:
    synced = tmp_path / "synced"
    synced.mkdir()
    assert doctor.run("sync", str(synced), "--yes").exit_code == 0
    assert "sync" not in doctor.findings()
    synced.rename(tmp_path / "away")
    assert doctor.run("sync").exit_code == 1

    finding = doctor.findings()["sync"]
    assert finding["state"] == "warn"
    assert f"syncing with {synced} fails: {synced} is missing" in finding["detail"]
    assert finding["advice"].endswith("run: engram sync")

    (tmp_path / "away").rename(synced)
    assert doctor.run("sync").exit_code == 0
    assert "sync" not in doctor.findings()


def test_an_old_sqlite_is_named(doctor: Doctor) -> None:
    if sqlite_version("sqlite3") >= SAFE_SQLITE:
        pytest.skip("the standard library's SQLite is new enough here")

    finding = doctor.findings("--set", "sqlite_driver=sqlite3")["driver"]

    assert finding["command"] == f"{sys.executable} -m pip install cysqlite"
    assert doctor.findings()["driver"]["state"] == "ok"


def test_sessions_in_another_configuration_folder_are_named(doctor: Doctor) -> None:
    say(doctor.claude / "projects" / "-work" / "s1.jsonl", "user", "hello")
    assert "sessions elsewhere" not in doctor.findings()
    path = doctor.user / ".claude" / "projects" / "-work" / "s2.jsonl"
    say(path, "user", "hello")
    os.utime(path, (time.time() + 60, time.time() + 60))

    finding = doctor.findings()["sessions elsewhere"]

    assert finding["command"] == f"engram config set claude_folder {doctor.user / '.claude'}"
    doctor.type_command(finding)
    assert "sessions elsewhere" not in doctor.findings()


def test_a_folder_whose_transcripts_are_all_gone_is_named(doctor: Doctor) -> None:
    """It was moved, or its disk isn't mounted. Before, an empty folder was in order."""
    say(doctor.claude / "projects" / "-work-demo" / "s1.jsonl", "user", "Why is the VAT too low?")
    assert doctor.run("up", "--once").exit_code == 0
    assert doctor.findings()["transcripts"]["state"] == "ok"

    shutil.rmtree(doctor.claude / "projects" / "-work-demo")
    finding = doctor.findings()["transcripts"]
    assert (finding["state"], "1 file was read earlier" in finding["detail"]) == ("warn", True)
    (doctor.claude / "projects").rmdir()
    finding = doctor.findings()["transcripts"]
    assert (finding["state"], "claude_folder" in finding["advice"]) == ("bad", True)


def test_unread_sessions_that_claude_code_is_about_to_delete_are_named_and_read(doctor: Doctor) -> None:
    path = doctor.claude / "projects" / "-work" / "11111111-2222-3333-4444-555555555555.jsonl"
    say(path, "user", "From now on always run make lint before every commit in this project.")
    old_seconds = time.time() - 26 * 86_400
    os.utime(path, (old_seconds, old_seconds))
    finding = doctor.findings()["cleanup"]
    assert "1 unread sessions within 7 days" in finding["detail"]
    doctor.write_claude("settings.json", {"cleanupPeriodDays": 365})
    assert "cleanup" not in doctor.findings()
    doctor.write_claude("settings.json", {})

    doctor.type_command(finding)

    assert "cleanup" not in doctor.findings()


@pytest.fixture
def answering(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A worker that holds its lock and answers what a test says."""
    lock = ProcessLock(doctor.home.worker_lock)

    def answer(**changes: object) -> None:
        values = {
            "pid": os.getpid(),
            "rss_mb": 100.0,
            "uptime_seconds": 0.0,
            "config": config_state(doctor.home.config_file),
            "model": HashedEmbedder().model_id,
            "runtime": "python",
            "reason": "",
            "index_mb": 0.0,
            "is_busy": False,
            "waiting": 0,
        }
        status = WorkerStatus(**(values | changes))  # type: ignore[arg-type]
        monkeypatch.setattr(machine_checks, "ask_status", lambda home: status)

    answer()
    yield answer
    lock.release()


def test_vectors_of_another_model_are_named(doctor: Doctor, answering: Callable[..., None]) -> None:
    with open_store(doctor.home.memory_db) as store:
        save_memory(store, "We ship on Mondays.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
        embed_missing(store, HashedEmbedder())
    assert "vectors" not in doctor.findings()

    answering(model="all-minilm")

    finding = doctor.findings()["vectors"]
    assert f"of {HashedEmbedder().model_id}" in finding["detail"]
    doctor.type_command(finding)


def test_a_worker_with_older_settings_or_without_an_answer_is_named(
    doctor: Doctor, answering: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A clock that is set back, or forward, changes nothing.
    for at in (time.time() - 86_400, time.time() + 86_400):
        os.utime(doctor.home.config_file, (at, at))
        answering(config=config_state(doctor.home.config_file))
        assert "worker's settings" not in doctor.findings()
    # A worker of an earlier version does not say what it read.
    answering(config=None)
    assert "worker's settings" not in doctor.findings()
    answering()

    assert doctor.run("config", "set", "recall_limit", "7").exit_code == 0
    assert doctor.findings()["worker's settings"]["command"] == "engram service restart"

    monkeypatch.setattr(machine_checks, "ask_status", lambda home: None)
    assert "does not answer" in doctor.findings()["worker's answers"]["detail"]


def test_the_findings_are_json_of_plain_values(doctor: Doctor) -> None:
    found = json.loads(doctor.run("doctor", "--json").stdout)

    assert {"ok", "fixed", "checks"} == set(found)
    assert {key for check in found["checks"] for key in check} == {
        "name",
        "state",
        "detail",
        "advice",
        "command",
        "fix",
        "public",
    }


def test_elements_that_are_not_known_are_counted_by_name(doctor: Doctor) -> None:
    settings = Settings(home=doctor.home.root, claude_folder=doctor.claude)
    path = settings.projects_folder / "-work-demo" / "66666666-2222-4333-8444-555555555555.jsonl"
    for name in ("handoff", "side-note", "handoff", "div"):
        say(path, "user", f"<{name}>Always use tabs.</{name}>")
    with open_store(settings.places.memory_db) as store:
        ingest_path(store, path, settings=settings, redact=redact, close=True)

    finding = doctor.findings()["unknown elements"]

    assert finding["state"] == "note"
    assert finding["detail"].endswith(": <handoff> 2, <side-note> 1")
