"""A machine whose findings a test reads, changes and reads again."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engram.cli.main import engram
from engram.paths import Home
from tests.processes import end_processes_of_home
from tests.services.conftest import stand_ins, write_files

__all__ = ["stand_ins", "write_files"]

Finding = dict[str, str]


@dataclass(frozen=True)
class Doctor:
    """Runs ``engram doctor`` in this process."""

    home: Home
    #: The user's own folder.
    user: Path
    #: Claude Code's configuration folder.
    claude: Path

    def run(self, *arguments: str) -> Result:
        """Run any command of ``engram``."""
        return CliRunner().invoke(engram, list(arguments))

    def findings(self, *arguments: str) -> dict[str, Finding]:
        """Return the findings by name."""
        result = self.run(*arguments, "doctor", "--json")
        assert result.exit_code in (0, 1), result.output
        checks: list[Finding] = json.loads(result.stdout)["checks"]
        return {check["name"]: check for check in checks}

    def fix(self) -> list[str]:
        """Run ``engram doctor --fix`` and return what was done."""
        fixed: list[str] = json.loads(self.run("doctor", "--fix", "--json").stdout)["fixed"]
        return fixed

    def type_command(self, finding: Finding) -> Result:
        """Type the command of a finding, which must be one of ``engram``."""
        words = finding["command"].split()
        assert words[0] == "engram"
        result = self.run(*words[1:])
        assert result.exit_code == 0, result.output
        return result

    def write_claude(self, name: str, value: Any) -> None:
        """Write one of Claude Code's files."""
        (self.claude / name).write_text(json.dumps(value))


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doctor]:
    """A machine where Engram is on PATH and has a memory folder, and nothing else is set up.

    What ``doctor --fix`` starts is ended.
    """
    made = Doctor(Home(tmp_path / "home"), tmp_path / "user", tmp_path / "claude")
    made.home.prepare()
    made.home.config_file.write_text('embedding_model = "hashed"\n')
    made.home.config_file.chmod(0o600)
    made.user.mkdir()
    (made.claude / "projects").mkdir(parents=True)
    for name in ("SSH_CONNECTION", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{tmp_path / 'bin'}:/usr/bin:/bin")
    yield made
    end_processes_of_home(made.home.root)


@pytest.fixture
def make_program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Make an executable file called ``engram`` in a folder of that name."""

    def make(folder: str, text: str) -> Path:
        path = tmp_path / folder / "engram"
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    return make
