"""Service files say the same under both systems: start at login, again only after a failure, enough time to drain."""

from __future__ import annotations

import json
import os
import plistlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from make_reference import example_files

from engram.cli.main import engram
from engram.errors import BadRequest
from engram.settings import Settings
from engram.setup.services.launchd import agent_files
from engram.setup.services.service_definition import NETWORK_VARIABLES, PROCESSES, Service, define_services
from engram.setup.services.systemd import unit_files, unit_text
from engram.system.process_lock import MAX_SILENCE_SECONDS

AWKWARD = 'a folder/with % and $HOME and "quotes" and ü'
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / AWKWARD / "home", claude_folder=tmp_path / AWKWARD / "claude")


def agents(services: tuple[Service, ...]) -> list[dict[str, Any]]:
    return [plistlib.loads(change.content or b"") for change in agent_files(services, Path("/Users/you"))]


def test_an_agent_starts_at_login_and_again_only_after_a_failure(settings: Settings) -> None:
    worker, watcher = agents(define_services(settings))

    assert (worker["ProgramArguments"][-1], watcher["ProgramArguments"][-1]) == ("worker", "watcher")
    assert worker["Label"] != watcher["Label"]
    for agent in (worker, watcher):
        assert agent["RunAtLoad"] is True
        assert agent["KeepAlive"] == {"SuccessfulExit": False}
        assert agent["ThrottleInterval"] == 5
        assert agent["ExitTimeOut"] == 20 > settings.drain_seconds
        assert agent["ProcessType"] == "Standard"
        assert agent["SoftResourceLimits"] == {"NumberOfFiles": 1024}
        assert agent["Umask"] == 0o077


def test_every_path_is_absolute_and_no_file_holds_a_secret(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in NETWORK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    monkeypatch.setenv("HTTP_PROXY", "http://me:very-secret@proxy.example:3128")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ca\n.pem")
    monkeypatch.setenv("PATH", f"{tmp_path}/project/.venv/bin:.:relative:/usr/bin")
    services = define_services(settings)
    changes = [*agent_files(services, tmp_path), *unit_files(services, tmp_path)]

    assert len(changes) == 6
    for change in changes:
        assert b"very-secret" not in (change.content or b"")
        assert change.path.is_absolute()
        assert change.mode == (0o644 if change.content else None)
    environment = agents(services)[0]["EnvironmentVariables"]
    assert environment.pop("HTTPS_PROXY") == "http://proxy.example:3128"
    assert environment.pop("no_proxy") == "localhost"
    assert set(environment) == {"HOME", "PATH", "ENGRAM_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"}
    folders = environment.pop("PATH").split(":")
    assert {"/usr/bin", "/bin", "/usr/local/bin"} <= set(folders)
    assert all(Path(value).is_absolute() for value in [*environment.values(), *folders])
    assert not any(".venv" in folder for folder in folders)


def test_the_path_of_a_service_begins_with_the_folders_of_the_programs_that_the_worker_runs(tmp_path: Path) -> None:
    for folder, program in (("claude", "claude"), ("node", "node"), ("git", "git"), ("other", "other")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / program).write_text("#!/bin/sh\n")
        (tmp_path / folder / program).chmod(0o755)
    path = ":".join(str(tmp_path / folder) for folder in ("other", "git", "node", "claude"))

    service = define_services(Settings(), environ={"PATH": path, "HOME": "/home/you"})[0]

    folders = service.environment["PATH"].split(":")
    assert folders[:4] == [
        *(str(tmp_path / folder) for folder in ("claude", "node", "git")),
        "/home/you/.local/bin",
    ]
    assert str(tmp_path / "other") not in folders


def test_each_memory_folder_has_its_own_services(tmp_path: Path) -> None:
    home = Path("/home/you")
    names = [
        {
            change.path.name
            for change in unit_files(
                define_services(Settings(home=folder), environ={"HOME": str(home), "PATH": ""}), tmp_path
            )
        }
        for folder in (home / ".claude-memory", tmp_path / "work", tmp_path / "private")
    ]

    assert names[0] == {"engram-work.service", "engram-watch.service"}
    assert not names[0] & names[1] | names[1] & names[2]


def test_a_unit_means_the_same_as_the_agent_and_is_watched(settings: Settings) -> None:
    for service in define_services(settings):
        lines = unit_text(service).splitlines()

        assert {
            "Type=notify",
            f"WatchdogSec={MAX_SILENCE_SECONDS}",
            "Restart=on-failure",
            "RestartSec=5",
            "TimeoutStopSec=20",
            "LimitNOFILE=1024",
            "LimitCORE=0",
            "UMask=0077",
            "WantedBy=default.target",
        } <= set(lines)
        assert any(
            line.startswith("ExecStart=") and line.endswith(f'"service" "run" "{PROCESSES[service.name]}"')
            for line in lines
        )
        high, most = (int(line.partition("=")[2].rstrip("M")) for line in lines if line.startswith("Memory"))
        assert settings.limit_rss_mb <= high < most
    services = define_services(settings)
    links = [change for change in unit_files(services, Path("/x")) if change.link_target]
    assert [(str(link.path), link.link_target) for link in links] == [
        (f"/x/default.target.wants/{path.name}", f"/x/{path.name}") for path in (link.path for link in links)
    ]


def test_a_unit_names_awkward_paths_as_systemd_reads_them(settings: Settings) -> None:
    text = unit_text(define_services(settings, python=Path("/opt/a b/50%/python"))[0])

    assert 'ExecStart="/opt/a b/50%%/python" ' in text
    assert "%% and $HOME and " + chr(92) + '"quotes' in text


def test_systemd_does_not_replace_a_part_of_the_path_of_python(settings: Settings) -> None:
    text = unit_text(define_services(settings, python=Path("/opt/${USER}/$b/python"))[0])

    # It would start the right file, but Python would look for its virtual environment beside another one.
    assert 'ExecStart="/usr/bin/env" "/opt/$${USER}/$$b/python" ' in text


@pytest.mark.parametrize("name", ["a\nExecStartPre=evil", os.fsdecode(b"caf\xe9"), "tab\t"])
def test_a_path_that_a_service_file_cannot_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRequest, match="contains a control character or a byte that is not UTF-8"):
        define_services(Settings(home=tmp_path, claude_folder=tmp_path / name))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
@pytest.mark.parametrize("name", ["plain", "a $b ${HOME} 50%", 'Tom\'s "own"', "back\\slash"])
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path, name: str) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / name)
    settings.home.mkdir()
    python = tmp_path / name / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    for change in unit_files(define_services(settings, python=python), tmp_path):
        if change.content is None:
            continue
        change.path.write_bytes(change.content)

        checked = subprocess.run(
            ["systemd-analyze", "--user", "--man=no", "verify", str(change.path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )

        complaints = [line for line in (checked.stdout + checked.stderr).splitlines() if change.path.name in line]
        assert complaints == []


@pytest.mark.parametrize("number", [0, 1], ids=["worker", "watcher"])
def test_a_unit_is_enough_to_run_its_process_without_the_environment_of_a_shell(tmp_path: Path, number: int) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    settings.places.prepare()
    settings.places.config_file.write_text('embedding_model = "hashed"\n')
    text = unit_text(define_services(settings)[number])
    command = shlex.split(re.findall("ExecStart=(.*)", text)[0])
    variables = dict(shlex.split(line)[0].split("=", 1) for line in re.findall("Environment=(.*)", text))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        process = subprocess.Popen(command, env=variables | {"NOTIFY_SOCKET": str(tmp_path / "notify")}, cwd="/")
        try:
            while manager.recv(100) != b"READY=1":
                pass
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()


def run(*arguments: str) -> str:
    result = CliRunner().invoke(engram, ["service", "print", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(("system", "number"), [("launchd", 2), ("systemd", 4)])
def test_the_command_prints_the_files_for_a_script(system: str, number: int) -> None:
    printed = json.loads(run("--system", system, "--json"))

    assert printed["system"] == system
    assert [Path(file["path"]).is_absolute() for file in printed["files"]] == [True] * number
    assert all("engram.cli.main" in file["text"] for file in printed["files"] if "text" in file)


def test_the_command_prints_for_a_person() -> None:
    printed = run("--system", "systemd")

    assert printed.count("ExecStart=") == 2
    assert "default.target.wants/engram-work" in printed


def test_the_examples_in_the_repository_are_current() -> None:
    for name, data in example_files().items():
        assert (REPOSITORY / name).read_bytes() == data, "run `make docs`"
