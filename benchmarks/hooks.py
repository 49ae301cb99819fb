"""Measure what a hook costs, as a ratio to a bare start of Python.

This measures PreToolUse with nothing pending; a prompt whose answer is ready; a failing command if no failures are
known, if other programs failed before, and if the same program did; and the status line.

    python benchmarks/hooks.py [--rounds N] [--json]

The commands take turns, so that a busy machine slows all of them equally. Targets: PreToolUse and PostToolUseFailure
≤ 0.25 with nothing to show, UserPromptSubmit ≤ 1.3, the status line 30 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from engram.paths import Home
from engram.recollection.hook_files import RecollectionFiles
from engram.recollection.render_bites import hook_output
from engram.setup.agents.plugin import statusline_entry
from engram.system.socketpath import socket_address
from engram_hooks.block import link_interpreter, settings_block

#: Payload of a prompt, about as long as real ones.
PAYLOAD = json.dumps(
    {
        "session_id": "22582f02-0391-4a88-b729-f218fbfb8d9e",
        "cwd": "/home/dev/proj",
        "hook_event_name": "UserPromptSubmit",
        "prompt": "why does the watcher hold a lock " * 10,
    }
).encode()
ANSWER = hook_output("UserPromptSubmit", "A note of about the usual length. " * 15)

STATUS_SESSION = "22582f02-0391-4a88-b729-f218fbfb8d9e"
#: Input of the status line, about as long as Claude Code's.
STATUS = json.dumps(
    {
        "session_id": STATUS_SESSION,
        "transcript_path": "/home/dev/.claude/projects/-home-dev-proj/22582f02-0391-4a88-b729-f218fbfb8d9e.jsonl",
        "workspace": {"current_dir": "/home/dev/proj", "added_dirs": ["/home/dev/" + "x" * 900]},
        "context_window": {"total_input_tokens": 90_000, "used_percentage": 45},
    },
    separators=(",", ":"),
).encode()
LINE = b"Engram: 3 shown, 2 kept\n"
#: How long to wait for what a hook started in the background, in seconds.
MAX_BACKGROUND_SECONDS = 1.0

STATUS_LINE = "status line"
#: The goals, printed next to the figures.
GOALS = {
    "PreToolUse": "   (goal: 0.25)",
    "PostToolUseFailure": "   (goal: 0.25)",
    "PostToolUseFailure, other program": "   (goal: 0.25)",
    "UserPromptSubmit": "   (goal: 1.30)",
    STATUS_LINE: "   (goal: 30 ms)",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home").prepare()
        link_interpreter(home)
        _serve(home)
        figures = measure(home, options.rounds)
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:<36} {figure['ms']:>7.1f} ms   {figure['ratio']:>5.2f}{GOALS.get(name, '')}")


def measure(home: Home, rounds: int) -> dict[str, dict[str, float]]:
    """Return the median time of each command, and its ratio to a bare Python."""
    block = settings_block(interpreter=sys.executable)["hooks"]
    commands = {event: ["/bin/sh", "-c", found[0]["hooks"][0]["command"]] for event, found in block.items()}
    commands["PreToolUse, subagent"] = ["/bin/sh", "-c", block["PreToolUse"][1]["hooks"][0]["command"]]
    commands[STATUS_LINE] = ["/bin/sh", "-c", statusline_entry(home)["command"]]
    RecollectionFiles(home.recollections).put_status_line(STATUS_SESSION, f"{os.getpid()} 3 2")
    sessions = dict.fromkeys(commands, "nothing-is-pending")
    for name, programs in (("other program", ["bun run lint"] * 20), ("known program", ["the watcher"])):
        commands[f"PostToolUseFailure, {name}"] = commands["PostToolUseFailure"]
        sessions[f"PostToolUseFailure, {name}"] = session = name.replace(" ", "-")
        RecollectionFiles(home.recollections).put_failed_programs(session, programs)
    commands = {"python -I -S -c pass": [str(home.python_link), "-I", "-S", "-c", "pass"]} | commands
    environment = os.environ | {"ENGRAM_HOME": str(home.root)}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            of_session = {"CLAUDE_CODE_SESSION_ID": sessions.get(name, "")}
            payload = STATUS if name == STATUS_LINE else PAYLOAD
            seconds, output = run(command, environment | of_session, payload)
            times[name].append(seconds)
            is_answered = name in ("UserPromptSubmit", "SessionStart", "SubagentStart") or "known program" in name
            wanted = LINE if name == STATUS_LINE else b""
            assert output == (ANSWER if is_answered else wanted), (name, output)
    bare = statistics.median(times["python -I -S -c pass"])
    return {
        name: {"ms": round(statistics.median(found) * 1000, 2), "ratio": round(statistics.median(found) / bare, 3)}
        for name, found in times.items()
    }


def run(command: list[str], environment: dict[str, str], payload: bytes) -> tuple[float, bytes]:
    """Run a command and wait for what it starts in the background; return its duration in seconds and its output."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )
    output, _ = process.communicate(payload)
    seconds = time.perf_counter() - began
    assert process.returncode == 0
    with contextlib.suppress(ProcessLookupError):
        while "& )" in command[-1] and time.perf_counter() < began + MAX_BACKGROUND_SECONDS:
            os.killpg(process.pid, 0)
            time.sleep(0.005)
    return seconds, output


def _serve(home: Home) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with socket_address(home.recall_socket) as address:
        listener.bind(address)
    listener.listen(16)

    def answer() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                while connection.recv(65_536):
                    pass
                connection.sendall(ANSWER)

    threading.Thread(target=answer, daemon=True).start()


if __name__ == "__main__":
    main()
