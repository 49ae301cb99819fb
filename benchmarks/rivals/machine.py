"""A scratch machine for one program: a home with the transcripts, measured processes, and a client for MCP servers.

This runs on Linux only: processor time and memory of a program's processes are read from ``/proc``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

#: Every process that a benchmarked program starts inherits this variable, by which it is found.
MARK = "RIVALS_RUN"
#: Seconds between two checks of the processes. A check costs the benchmark processor time, but not the program.
LOOK_SECONDS = 1.0
#: Maximum time for one question, in seconds.
ANSWER_SECONDS = 300.0
#: Maximum time for reading all transcripts, in seconds.
READ_SECONDS = 3600.0
_CWD = re.compile(rb'"cwd":\s*"(?:[^"\\]|\\.)*"')
_TIME = re.compile(rb'"timestamp":\s*"(\d{4}-\d\d-\d\dT[0-9:.]+Z)"')
_PAGE, _TICKS = 2**20, os.sysconf("SC_CLK_TCK")


@dataclass
class Run:
    """A finished command."""

    code: int
    stdout: str
    stderr: str
    #: Wall time.
    seconds: float


@dataclass
class Cost:
    """The cost of reading: processor seconds, wall seconds, and the peak of the total memory, in MB (PSS)."""

    processor_seconds: float = 0.0
    seconds: float = 0.0
    peak_mb: float = 0.0


@dataclass
class Machine:
    """One program's machine: everything that it writes is in ``folder``, in which ``home`` is its ``HOME``."""

    folder: Path
    #: Repository of the corpus → the folder in which its sessions took place.
    projects: dict[str, Path] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The home folder of the machine's only user."""
        return self.folder / "home"

    @property
    def claude(self) -> Path:
        """Claude Code's configuration folder."""
        return self.home / ".claude"

    @staticmethod
    def slug(folder: Path) -> str:
        """Return Claude Code's name for the folder with the transcripts of a working folder."""
        return re.sub(r"[^A-Za-z0-9]", "-", str(folder))

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables of every program: only ``PATH`` from the user's, and settings that avoid the network."""
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder),
            "CLAUDE_CONFIG_DIR": str(self.claude),
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "DO_NOT_TRACK": "1",
            "ANONYMIZED_TELEMETRY": "False",
            MARK: self.mark,
        } | dict(more or {})

    def run(
        self,
        command: Sequence[str | Path],
        *,
        given: str = "",
        folder: Path | None = None,
        more: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Run:
        """Run a command to its end; a command that takes too long is ended and has code -9."""
        start = time.monotonic()
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder or self.home,
            env=self.environment(more),
            start_new_session=True,
        )
        try:
            out, err = process.communicate(given.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        took = time.monotonic() - start
        return Run(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), took)

    def start(self, command: Sequence[str | Path], *, more: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a service, which ends with the machine; what it prints goes to ``service.log``."""
        with (self.folder / "service.log").open("ab") as log:
            process = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env=self.environment(more),
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def stop(self) -> None:
        """End the processes that were started here, and any processes that they left behind."""
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
        for pid in marked_processes(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.wait()
        self.started.clear()

    @contextlib.contextmanager
    def measured(self) -> Iterator[Cost]:
        """Yield a cost, and fill in at the end what the programs took that ran in this block."""
        cost, done = Cost(), threading.Event()
        of_pid: dict[int, tuple[float, bool]] = {}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()

        def look() -> None:
            while not done.wait(LOOK_SECONDS):
                cost.peak_mb = max(cost.peak_mb, self.resident_mb(of_pid))

        watching = threading.Thread(target=look, daemon=True)
        watching.start()
        try:
            yield cost
        finally:
            done.set()
            watching.join()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            alive = set(marked_processes(self.mark))
            # The kernel counts a process that was waited for, and those that it waited for; the others are daemons.
            daemons = sum(seconds for pid, (seconds, is_orphan) in of_pid.items() if is_orphan or pid in alive)
            waited = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            cost.processor_seconds = round(waited + daemons, 1)
            cost.seconds = round(time.monotonic() - start, 1)
            cost.peak_mb = round(cost.peak_mb)

    def resident_mb(self, seen: dict[int, tuple[float, bool]] | None = None) -> float:
        """Return the memory of all processes of this machine, in MB, counting shared pages once."""
        total = 0.0
        for pid in marked_processes(self.mark):
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += int(re.search(r"^Pss:\s+(\d+)", text, re.M)[1]) / 1024  # type: ignore[index]
                if seen is not None:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    seen[pid] = (sum(map(int, fields[11:15])) / _TICKS, fields[1] == "1")
        return total


def marked_processes(mark: str) -> list[int]:
    """Return the ids of the processes that inherited a mark."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def prepare_machine(folder: Path, corpus: Path, given_home: Path | None = None) -> Machine:
    """Create a machine on which all sessions of a corpus took place, those of each repository in one existing folder.

    The sessions come from several people's machines. Only the ``cwd`` in their lines is replaced with the folder of the
    repository on this machine, so that every program sees one person's projects; a file's time is that of its last
    line. ``given_home`` contains what a program would download; it becomes part of the home.
    """
    shutil.rmtree(folder, ignore_errors=True)
    machine = Machine(folder.absolute())
    if given_home is not None and given_home.is_dir():
        shutil.copytree(given_home, machine.home, symlinks=True)
    for repository in sorted(path for path in corpus.iterdir() if (path / "projects").is_dir()):
        working = machine.home / "code" / repository.name.rpartition("__")[2]
        working.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", working], check=True, stdout=subprocess.DEVNULL)
        machine.projects[repository.name] = working
        for source in sorted((repository / "projects").rglob("*.jsonl")):
            inside = Path(*source.relative_to(repository / "projects").parts[1:])
            target = machine.claude / "projects" / machine.slug(working) / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            here = b'"cwd":' + json.dumps(str(working)).encode().replace(b"\\", b"\\\\")
            content = _CWD.sub(here, source.read_bytes())
            target.write_bytes(content)
            if times := _TIME.findall(content):
                at = datetime.fromisoformat(max(times).decode()).timestamp()
                os.utime(target, (at, at))
    return machine


def folder_mb(*folders: Path) -> float:
    """Return the size of files and folders, in MB. Missing ones count as 0, and hard links are counted once."""
    seen: dict[tuple[int, int], int] = {}
    for folder in folders:
        for path in [folder, *folder.rglob("*")] if folder.exists() else []:
            found = path.lstat()
            if not path.is_dir() or path.is_symlink():
                seen[found.st_dev, found.st_ino] = found.st_size
    return round(sum(seen.values()) / 1e6, 1)


class McpClient:
    """A session with an MCP server over stdin and stdout."""

    def __init__(
        self, machine: Machine, command: Sequence[str | Path], folder: Path, more: Mapping[str, str] | None = None
    ) -> None:
        """Start the server in a folder and shake hands. Raises RuntimeError."""
        with (machine.folder / "mcp.log").open("ab") as log:
            self._process = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env=machine.environment({"CLAUDE_PROJECT_DIR": str(folder)} | dict(more or {})),
                start_new_session=True,
            )
        machine.started.append(self._process)
        self._machine = machine
        self._heard = b""
        self._last_id = 0
        client = {"name": "claude-code", "version": "2.1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools as an agent sees them."""
        tools = self.ask("tools/list", {})["tools"]
        return list(tools)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return the text of a tool's answer, which may be an error."""
        result = self.ask("tools/call", {"name": tool, "arguments": dict(arguments)})
        return "\n".join(block.get("text", "") for block in result.get("content", ()))

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a request. Raises RuntimeError."""
        self._last_id += 1
        self._say({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        until = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < until:
            while b"\n" in self._heard:
                line, _, self._heard = self._heard.partition(b"\n")
                message = json.loads(line) if line.strip().startswith(b"{") else {}
                if message.get("id") == self._last_id and "method" not in message:
                    if "error" in message:
                        raise RuntimeError(f"{method}: {message['error']}")
                    return dict(message["result"])
            ready, _, _ = select.select([self._out], [], [], 1.0)
            if ready and not (chunk := os.read(self._out, 1 << 16)):
                break
            self._heard += chunk if ready else b""
        raise RuntimeError(f"{method}: the MCP server gave no answer")

    def close(self) -> None:
        """End the session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._machine.started.remove(self._process)

    @property
    def _out(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def context_of(stdout: str) -> str:
    """Return what the model sees of a hook's output: ``additionalContext``, or the plain text."""
    text = stdout.strip()
    if not text.startswith("{"):
        return text
    try:
        answer = json.loads(text)
    except ValueError:
        return text
    inner = answer.get("hookSpecificOutput") or {}
    return str(inner.get("additionalContext") or answer.get("additionalContext") or "").strip()
