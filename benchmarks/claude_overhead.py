"""Measure what Engram's plugin adds in the real Claude Code to a prompt, a tool call, and a whole ``claude -p``.

    python benchmarks/claude_overhead.py CLAUDE [--prompts N] [--calls N] [--rounds N] [--mod] [--json]

CLAUDE is the command of a real Claude Code. No request leaves the machine: a local server answers in the model's place.
The watcher and the worker run over the memories of the sample sessions. Two sessions run side by side and take turns,
prompt by prompt: one with the plugin, and one with hooks for the same events that do nothing. A busy machine slows both
equally, and each figure is the median of the differences within a pair. The time of a prompt is measured from its
arrival in Claude Code to the request to the model, and that of a tool call from the model's answer to the next request.
Whole runs of ``claude -p``, including the MCP server, are compared with Claude Code without any plugin. Goals: 40 ms,
10 ms, 0.3 s; with the plugin's mod (``--mod``), 0.5 s.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from engram.cli.up_commands import SAMPLES
from engram.paths import Home
from engram.setup.agents.registered import plugin_files, skills_folder
from engram_hooks.block import link_interpreter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

#: Maximum duration of one run of Claude Code, in seconds.
RUN_SECONDS = 120
PROMPTS = (
    "why does the build fail on the second run",
    "add a retry to the upload of reports",
    "what did we decide about the cache of the parser",
    "rename the settings file and update its readers",
    "the tests of the importer hang, find out why",
    "write a short summary of what the queue does",
)


@dataclass
class Model:
    """Answers requests with the remaining number of calls to Read, and records when each request arrived."""

    file: Path
    calls_left: int = 0
    arrivals: list[float] = field(default_factory=list)

    def script(self, request: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
        """Return the next call, or the end of the turn."""
        if not request.get("tools"):
            return "", "a title"
        self.arrivals.append(time.perf_counter())
        if self.calls_left == 0:
            return "", "done"
        self.calls_left -= 1
        return "Read", {"file_path": str(self.file)}


class Session:
    """A Claude Code process that gets one prompt after the other."""

    def __init__(self, claude: str, project: Path, environment: dict[str, str]) -> None:
        """Start the process; it sends nothing before the first prompt."""
        options = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        self.process = subprocess.Popen(
            [claude, *options],
            cwd=project,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, prompt: str, model: Model, calls: int) -> tuple[float, list[float]]:
        """Send a prompt; return the seconds until its request, and the seconds of each tool call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        model.calls_left, model.arrivals = calls, []
        message = {"type": "user", "message": {"role": "user", "content": prompt}}
        sent = time.perf_counter()
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if json.loads(line).get("type") == "result":
                break
        arrivals = model.arrivals
        return arrivals[0] - sent, [later - earlier for earlier, later in pairwise(arrivals)]

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(RUN_SECONDS)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claude")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--mod", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options)
    if options.json:
        print(json.dumps(figures))
        return
    goal, without = 0.5 if options.mod else 0.3, figures["run_nothing_s"]
    print(
        f"prompt      {figures['prompt_ms']:+7.1f} ms   (goal: 40; {figures['prompt_nothing_ms']:.0f} ms with nothing)"
    )
    print(f"tool call   {figures['call_ms']:+7.1f} ms   (goal: 10; {figures['call_nothing_ms']:.0f} ms with nothing)")
    print(f"claude -p   {figures['run_s']:+7.2f} s    (goal: {goal:.2f}; {without:.2f} s without a plugin)")
    print(f"load        {figures['load']:7.1f}")


def measure(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Return the medians of all figures. Those without ``nothing`` in their name are differences within pairs."""
    from tests.claude_binary import StandInServer

    home = Home(folder / "memory").prepare()
    link_interpreter(home)
    project = folder / "project"
    project.mkdir()
    (project / "notes.txt").write_text("nothing of note\n")
    model = Model(project / "notes.txt")
    server = StandInServer({}, model.script)
    environments = {name: _environment(folder, name, home, server.url) for name in ("engram", "nothing", "without")}
    _write_plugin(folder / "engram", plugin_files(home, mod=options.mod))
    _write_plugin(folder / "nothing", _plugin_of_nothing(home))
    shutil.copytree(SAMPLES / "projects", folder / "engram" / "projects")
    engram = [sys.executable, "-m", "engram.cli.main"]
    subprocess.run([*engram, "up", "--once"], env=environments["engram"], check=True, capture_output=True)
    processes = [
        subprocess.Popen(
            [*engram, "service", "run", name],
            env=environments["engram"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name in ("watcher", "worker")
    ]
    try:
        while not home.recall_socket.is_socket():
            time.sleep(0.1)
        figures = _turns(options, project, environments, model)
        figures |= _runs(options, project, environments, model)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        server.close()
    return figures | {"load": os.getloadavg()[0]}


def _turns(
    options: argparse.Namespace, project: Path, environments: dict[str, dict[str, str]], model: Model
) -> dict[str, float]:
    """Measure prompts and tool calls in two sessions that take turns."""
    sessions = {name: Session(options.claude, project, environments[name]) for name in ("engram", "nothing")}
    prompts: dict[str, list[float]] = {name: [] for name in sessions}
    calls: dict[str, list[float]] = {name: [] for name in sessions}
    for number in range(options.prompts + 1):
        text = f"{PROMPTS[number % len(PROMPTS)]} ({number})"
        for name in ("engram", "nothing") if number % 2 else ("nothing", "engram"):
            prompt_seconds, call_seconds = sessions[name].ask(text, model, options.calls)
            # The first prompt waits for the start of the session.
            if number:
                prompts[name].append(prompt_seconds)
                calls[name] += call_seconds
    for session in sessions.values():
        session.close()
    return {
        "prompt_ms": _difference(prompts["engram"], prompts["nothing"]) * 1000,
        "prompt_nothing_ms": statistics.median(prompts["nothing"]) * 1000,
        "call_ms": _difference(calls["engram"], calls["nothing"]) * 1000,
        "call_nothing_ms": statistics.median(calls["nothing"]) * 1000,
    }


def _runs(
    options: argparse.Namespace, project: Path, environments: dict[str, dict[str, str]], model: Model
) -> dict[str, float]:
    """Measure whole runs with the plugin and without any."""
    times: dict[str, list[float]] = {"engram": [], "without": []}
    for number in range(options.rounds + 1):
        for name in ("engram", "without") if number % 2 else ("without", "engram"):
            model.calls_left = 0
            started = time.perf_counter()
            subprocess.run(
                [options.claude, "-p", "say yes"],
                cwd=project,
                env=environments[name],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=RUN_SECONDS,
            )
            if number:
                times[name].append(time.perf_counter() - started)
    return {
        "run_s": _difference(times["engram"], times["without"]),
        "run_nothing_s": statistics.median(times["without"]),
    }


def _difference(some: list[float], others: list[float]) -> float:
    return statistics.median(one - other for one, other in zip(some, others, strict=True))


def _environment(folder: Path, name: str, home: Home, url: str) -> dict[str, str]:
    (folder / name).mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CLAUDE", "ENGRAM", "ANTHROPIC"))}
    return kept | {
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / name),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-for-the-stand-in",
        "ENGRAM_HOME": str(home.root),
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def _plugin_of_nothing(home: Home) -> dict[str, bytes]:
    """Return the files of the same plugin with hooks that do nothing and without the MCP server."""
    files = plugin_files(home)
    document = json.loads(files["hooks/hooks.json"])
    for groups in document["hooks"].values():
        for group in groups:
            for hook in group["hooks"]:
                hook["command"] = "exit 0"
    return files | {"hooks/hooks.json": json.dumps(document).encode(), ".mcp.json": b'{"mcpServers": {}}'}


def _write_plugin(claude_folder: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        target = skills_folder(claude_folder) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


if __name__ == "__main__":
    main()
