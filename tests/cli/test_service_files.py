"""Service files say the same under both systems: start at login, again only after a failure, enough time to drain."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram.cli.service_files import SERVICES, example_files, launchd_files, systemd_files, unit
from engram.errors import BadRequest
from engram.settings import Settings

AWKWARD = 'a folder/with % and $HOME and "quotes" and ü'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / AWKWARD / "home", claude_folder=tmp_path / AWKWARD / "claude")


def test_there_is_one_agent_for_the_worker_and_one_for_the_watcher(settings: Settings) -> None:
    agents = [plistlib.loads(file.data) for file in launchd_files(settings)]

    assert [agent["ProgramArguments"][-1] for agent in agents] == ["work", "watch"]
    assert len({agent["Label"] for agent in agents}) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_an_agent_starts_at_login_and_again_only_after_a_failure(settings: Settings, number: int) -> None:
    agent = plistlib.loads(launchd_files(settings)[number].data)

    assert agent["RunAtLoad"] is True
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["ThrottleInterval"] == 5
    assert agent["ExitTimeOut"] == 20 > settings.drain_seconds
    assert agent["ProcessType"] == "Standard"
    assert agent["SoftResourceLimits"] == {"NumberOfFiles": 1024}
    assert agent["Umask"] == 0o077


def test_every_path_of_an_agent_is_absolute_and_it_holds_no_secret(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    for file in [*launchd_files(settings), *systemd_files(settings)]:
        assert b"very-secret" not in file.data
        assert file.folder.is_absolute()
    agent = plistlib.loads(launchd_files(settings)[0].data)
    assert Path(agent["ProgramArguments"][0]).is_absolute()
    assert set(agent["EnvironmentVariables"]) == {"ENGRAM_HOME", "CLAUDE_CONFIG_DIR"}
    assert all(Path(value).is_absolute() for value in agent["EnvironmentVariables"].values())


@pytest.mark.parametrize("name", list(SERVICES))
def test_a_unit_means_the_same_as_the_agent(settings: Settings, name: str) -> None:
    lines = unit(name, settings).splitlines()

    assert {
        "Restart=on-failure",
        "RestartSec=5",
        "TimeoutStopSec=20",
        "LimitNOFILE=1024",
        "UMask=0077",
        "WantedBy=default.target",
    } <= set(lines)
    assert any(line.startswith("ExecStart=") and line.endswith(f'"{name}"') for line in lines)


def test_a_unit_names_awkward_paths_as_systemd_reads_them(settings: Settings) -> None:
    text = unit("work", settings, Path("/opt/a $b/50%/python"))

    assert 'ExecStart="/opt/a $$b/50%%/python" ' in text
    assert "%% and $HOME and " + chr(92) + '"quotes' in text


def test_a_path_with_a_line_break_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        unit("work", Settings(home=tmp_path / "a\nExecStartPre=evil", claude_folder=tmp_path))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    settings.home.mkdir()
    for file in systemd_files(settings, Path(sys.executable)):
        path = tmp_path / file.name
        path.write_bytes(file.data)

        checked = subprocess.run(
            ["systemd-analyze", "--user", "--man=no", "verify", str(path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )

        complaints = [line for line in (checked.stdout + checked.stderr).splitlines() if file.name in line]
        assert complaints == []


@pytest.mark.parametrize("system", ["launchd", "systemd"])
def test_the_command_prints_both_files_for_a_script(run_json: Callable[..., Any], system: str) -> None:
    found = run_json("service", "--print", "--system", system)

    assert found["system"] == system
    assert [Path(file["path"]).is_absolute() for file in found["files"]] == [True, True]
    assert all("engram.cli.main" in file["text"] for file in found["files"])


def test_the_command_prints_for_a_person(run: Callable[..., Any]) -> None:
    assert "ExecStart=" in run("service", "--print", "--system", "systemd").stdout


def test_the_examples_in_the_repository_are_current() -> None:
    repository = Path(__file__).resolve().parents[2]

    for name, data in example_files().items():
        assert (repository / name).read_bytes() == data, "run `make docs`"
