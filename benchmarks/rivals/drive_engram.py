"""Engram itself, as it is installed: by rules, without a language model."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from driver import Driver
from machine import READ_SECONDS, context_of

#: Maximum number of seconds until the worker serves.
_START_SECONDS = 90.0
#: Beginnings of its answer if it found nothing.
_NOTHING = ("no memory", "nothing")


class Engram(Driver):
    """The worker, the hook for a prompt, and ``memory_recall`` in a session in the project's folder."""

    name = "Engram"
    configuration = (
        "as installed: the bundled model, memories by rules, no language model; the folder tells the project"
    )
    agents = 3
    systems = "Linux, macOS"
    unfair = (
        "for it: its threshold for a prompt was fitted on prompts of these four projects (cross-validated)",
        "for it: the questions were known while its ranking was built",
    )

    @property
    def _engram(self) -> Path:
        return Path(sys.executable).with_name("engram")

    def variables(self) -> dict[str, str]:
        """Choose its folder, and remove the limit on memories per hour."""
        return {"ENGRAM_HOME": str(self.machine.home / ".claude-memory"), "ENGRAM_HOURLY_MEMORIES": "1000000"}

    def version(self) -> str:
        """Return the version as the program prints it."""
        return self.machine.run([self._engram, "--version"]).stdout.split()[-1]

    def installed(self) -> Sequence[Path]:
        """Return the program and every package that it needs."""
        return _runtime_files()

    def stored(self) -> Sequence[Path]:
        """Return the memory folder."""
        return [self.machine.home / ".claude-memory"]

    def read(self) -> None:
        """Read, extract, embed and index."""
        done = self.machine.run([self._engram, "up", "--once"], more=self.variables(), seconds=READ_SECONDS)
        if done.code:
            raise RuntimeError(done.stderr[-2000:])

    def open(self) -> None:
        """Start the watcher and the worker, and wait for the worker's sockets."""
        self.machine.start([self._engram, "up"], more=self.variables())
        home, until = Path(self.variables()["ENGRAM_HOME"]), time.monotonic() + _START_SECONDS
        while not ((home / "engram.sock").exists() and (home / "mcp.sock").exists()):
            if time.monotonic() > until:
                raise RuntimeError("the worker does not serve")
            time.sleep(0.1)
        hooks = self.machine.run([self._engram, "setup", "hooks", "--json"], more=self.variables()).stdout
        self._hook = json.loads(hooks)["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]

    def server(self) -> Sequence[str | Path]:
        """Return the command of the MCP server."""
        return [self._engram.with_name("engram-mcp")]

    def answer(self, question: str, folder: Path) -> str:
        """Call ``memory_recall``."""
        text = self.session(folder).call("memory_recall", {"query": question})
        return "" if text.lower().startswith(_NOTHING) else text

    def prompt(self, prompt: str, folder: Path, session_id: str) -> str:
        """Run the hook for a prompt."""
        payload = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": session_id,
            "prompt": prompt,
            "cwd": str(folder),
            "transcript_path": str(folder / f"{session_id}.jsonl"),
        }
        more = self.variables()
        done = self.machine.run(["sh", "-c", self._hook], given=json.dumps(payload), folder=folder, more=more)
        return context_of(done.stdout)


class EngramEverywhere(Engram):
    """Queried without a project, like programs that have one index for the whole machine."""

    name = "Engram, all projects"
    asks = "Engram"
    configuration = "as above, asked by `engram recall` without a project: every project of the machine is searched"
    has_hook = False

    def answer(self, question: str, folder: Path) -> str:
        """Run ``engram recall``."""
        done = self.machine.run([self._engram, "recall", question], folder=self.machine.home, more=self.variables())
        return "" if done.code or done.stdout.lower().startswith(_NOTHING) else done.stdout.strip()


def _runtime_files() -> list[Path]:
    """Return the files of the distributions that Engram needs, except those for developers."""
    from importlib.metadata import PackageNotFoundError, distribution

    from packaging.requirements import Requirement

    found: dict[str, list[Path]] = {}
    waiting = ["engram-recall"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = [Path(str(package.locate_file(file))) for file in package.files or ()]
        needed = map(Requirement, package.requires or ())
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    root = Path(__file__).parents[2]
    own = [root / "engram", root / "hooks", root / "mcp_server"]
    return [path for files in found.values() for path in files if path.exists()] + own
