"""The commands of a page, and a reader who types them."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner

from engram.cli.main import engram as root_command
from engram.models.open_memory import open_store
from engram.paths import Home

REPO = Path(__file__).resolve().parents[2]
SAMPLES = REPO / "engram" / "samples"
#: Longest time that one command may take, in seconds; far above what any needs.
MAX_COMMAND_SECONDS = 170
_BLOCK = re.compile(
    r"(?:^<!-- run elsewhere: (?P<where>[\w/.]+) -->\n)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.M | re.S
)
_MEMORY_ID = re.compile(r"\bep_[0-9a-f]{12}\b|\bID\b")


@dataclass(frozen=True)
class Block:
    """A block of code: commands (``sh``) or what they print (no kind)."""

    kind: str
    body: str
    #: The test that runs its commands; "" if they are run as the page stands.
    elsewhere: str = ""
    #: Nothing stands between it and the block before: it is what that prints.
    is_output: bool = False

    @property
    def commands(self) -> list[str]:
        """Its commands, each on one line."""
        lines = self.body.replace("\\\n", " ").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    blocks, end = [], 0
    for match in _BLOCK.finditer(text):
        is_output = bool(blocks) and not match["kind"] and not text[end : match.start()].strip()
        blocks.append(Block(match["kind"], match["body"], match["where"] or "", is_output))
        end = match.end()
    return blocks


@dataclass
class Reader:
    """Types the commands of one page into one shell, in a home that has the sample sessions."""

    user: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def type(self, command: str) -> str:
        """Run a command where the one before left off; returns what it prints, fails if it fails.

        Plain calls of ``engram`` run in this process, which is five times as fast as a process each.
        """
        command = self._filled_in(command)
        words = shlex.split(command, comments=True)
        is_plain = words[0] == "engram" and not re.search(r"[|;&<>$~]", command.partition(" #")[0])
        return self._call(command, words[1:]) if is_plain else self._run(command)

    def stop(self) -> None:
        """End what the page started."""
        with patch.dict(os.environ, self.environment, clear=True), contextlib.chdir(self.folder):
            for words in (("service", "stop"), ("ui", "--stop")):
                CliRunner().invoke(root_command, words)

    def _call(self, command: str, words: list[str]) -> str:
        with patch.dict(os.environ, self.environment, clear=True), contextlib.chdir(self.folder):
            result = CliRunner().invoke(root_command, words, input=answers_to(words))
        assert result.exit_code in allowed_codes(command), f"{command}\n{result.output[-2000:]}\n{result.exception!r}"
        return result.output

    def _run(self, command: str) -> str:
        state = self.user / ".state"
        script = f"{command}\nstatus=$?\n{{ pwd; env -0; }} > {shlex.quote(str(state))}\nexit $status\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            input="y\n",
            capture_output=True,
            text=True,
            timeout=MAX_COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode in allowed_codes(command), f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        folder, _, environment = state.read_text().partition("\n")
        self.folder = Path(folder)
        self.environment = dict(pair.split("=", 1) for pair in environment.split("\0") if "=" in pair)
        return done.stdout + done.stderr

    def _filled_in(self, command: str) -> str:
        """The command with the ids and names that stand for the reader's own."""
        command = command.replace("NAME", "harbor").replace("engram sessions ID", "engram sessions SESSION")
        if "SESSION" in command:
            return command.replace("SESSION", self._value("SELECT session_id FROM session ORDER BY id LIMIT 1"))
        if _MEMORY_ID.search(command):
            oldest = "SELECT episode_id FROM episode WHERE status = 'active' AND kind != 'note' ORDER BY id LIMIT 1"
            return _MEMORY_ID.sub(self._value(oldest), command)
        return command

    def _value(self, query: str) -> str:
        home = self.environment.get("ENGRAM_HOME", str(self.user / ".claude-memory"))
        with open_store(Home(Path(home)).memory_db) as store:
            return str(store.value(query))


def allowed_codes(command: str) -> tuple[int, ...]:
    """The exit codes that the page announces in the command's comment."""
    return (0, 1) if "exit code 1" in command else (0,)


def answers_to(words: list[str]) -> str:
    """What a reader types when the program asks."""
    answers = {"forget": "memory\ny\n", "install": "y\nlocal\ny\ny\n"}
    return answers.get(words[0], "y\n")


def make_reader(user: Path) -> Reader:
    """A user with the sample sessions as their own, in a folder that looks like a checkout."""
    folder = user / "engram"
    (folder / "engram").mkdir(parents=True)
    (folder / "engram" / "samples").symlink_to(SAMPLES)
    (user / "work" / "boats").mkdir(parents=True)
    binaries = folder / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name, module in (("engram", "engram.cli.main"), ("engram-mcp", "engram_mcp.server")):
        script = f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c 'from {module} import main; main()' \"$@\"\n"
        (binaries / name).write_text(script)
        (binaries / name).chmod(0o755)
    projects = user / ".claude" / "projects"
    for project in (SAMPLES / "projects").iterdir():
        (projects / project.name).mkdir(parents=True)
        for path in project.iterdir():
            (projects / project.name / path.name).write_bytes(path.read_bytes())
    paths = [str(binaries), str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    environment = {
        "HOME": str(user),
        "PATH": os.pathsep.join(paths),
        "PYTHONPATH": os.pathsep.join(str(REPO / name) for name in ("", "hooks", "mcp_server")),
        "LANG": "C.UTF-8",
    }
    return Reader(user, folder, environment)
