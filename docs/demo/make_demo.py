"""Make the picture of README: the real program over the sample sessions, as an animated SVG of 25 seconds.

``python docs/demo/make_demo.py FILE`` reads the sample sessions into a memory of its own, starts the worker, runs the
hook as Claude Code runs it, and draws what came out. Nothing is invented but the two prompts; the steps "without" are
those of the sample session in which the error was debugged.
"""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from engram.cli.up_commands import SAMPLES
from engram.paths import Home
from engram.worker.worker_client import ask_status

#: Length of the picture, in seconds.
SECONDS = 25
#: Number of the scene that is shown where nothing may move.
STILL = 1
#: Prompt about something that was solved before, and one about something else.
AGAIN = "The VAT on invoice 2026-0151 is one cent too low. Why?"
UNRELATED = "Please add a dark mode to the settings page."
#: The session in which it was debugged first.
DEBUGGED = "5d4da058-9547-4d8d-9e6a-f1b36f34670a"
#: Characters of a line, and the picture's measures in pixels.
COLUMNS, WIDTH, HEIGHT, LEFT, TOP, LINE, FONT = 88, 800, 404, 22, 62, 21, 14
COLOURS = {"title": "#8b949e", "typed": "#e6edf3", "memory": "#7ee787", "bad": "#ff7b72", "plain": "#adbac7"}
_START_SECONDS = 60
_TRIES = 5


@dataclass(frozen=True)
class Shown:
    """A line of the picture."""

    text: str
    colour: str = "plain"


@dataclass(frozen=True)
class Scene:
    """What stands together; the next scene clears it."""

    seconds: float
    lines: list[Shown]


class Program:
    """The real program over a memory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "HOME": str(folder),
            "ENGRAM_HOME": str(folder / "memory"),
            "CLAUDE_CONFIG_DIR": str(SAMPLES),
            "CODEX_HOME": str(folder / "codex"),
            "ENGRAM_BITES": "1",
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "LANG": "C.UTF-8",
            "COLUMNS": str(COLUMNS),
        }

    def run(self, *arguments: str) -> str:
        """What ``engram …`` prints."""
        command = [sys.executable, "-c", "from engram.cli.main import main; main()", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start the worker and wait until it answers."""
        command = [sys.executable, "-c", "from engram.cli.main import main; main()", "work"]
        quiet = subprocess.DEVNULL
        worker = subprocess.Popen(command, env=self.environment, stdout=quiet, stderr=quiet)
        until = time.monotonic() + _START_SECONDS
        home = Home(self.folder / "memory")
        while time.monotonic() < until and not ((status := ask_status(home)) and status.model):
            time.sleep(0.2)
        return worker

    @cached_property
    def hook(self) -> str:
        """The command that Claude Code runs at a prompt."""
        return str(json.loads(self.run("hooks"))["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"])

    def ask(self, prompt: str, session: str) -> str:
        """What Claude is given with a prompt, by the hook as Claude Code runs it; "" for silence."""
        payload = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": session,
            "cwd": "/home/dev/harbor",
            "prompt_id": f"p{time.monotonic_ns()}",
            "prompt": prompt,
        }
        done = subprocess.run(
            ["/bin/sh", "-c", self.hook],
            env=self.environment,
            input=json.dumps(payload),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


def make_scenes() -> list[Scene]:
    """Run the program and return what it did."""
    with tempfile.TemporaryDirectory() as name:
        program = Program(Path(name))
        program.run("up", "--once")
        worker = program.start_worker()
        try:
            session, told = first_answer(program)
            silence = program.ask(UNRELATED, session)
            why = program.run("why", session)
        finally:
            worker.terminate()
            worker.wait(60)
    (memory,) = [line for line in told.splitlines() if "[ep_" in line]
    lines = [line for line in why.splitlines() if line.startswith("  ")]
    facts = [line.strip() for line in lines if line[2] != " " or "Claude was shown it: " in line]
    if silence or "not relevant enough" not in facts[-1]:
        raise SystemExit(f"the unrelated prompt was not met with silence for its own sake: {facts[-1]}")
    return [
        Scene(8.5, [title("Without: debugging it again"), typed(AGAIN), *steps_of_debugging()]),
        Scene(6.5, [title("With Engram: one dated line comes with the prompt"), typed(AGAIN), *wrapped(memory)]),
        Scene(3.5, [title("An unrelated prompt: silence"), typed(UNRELATED), Shown(f"({len(silence)} characters)")]),
        Scene(6.5, [title("And why"), Shown(f"$ engram why {session[:8]}", "typed"), *map(Shown, facts)]),
    ]


def first_answer(program: Program) -> tuple[str, str]:
    """Ask in new sessions until the answer is in time: on a busy machine the first may be too late for the hook."""
    for _ in range(_TRIES):
        session = str(uuid.uuid4())
        told = program.ask(AGAIN, session)
        if told:
            return session, told
    raise SystemExit("the machine is too busy: no answer came in time")


def title(text: str) -> Shown:
    return Shown(f"# {text}", "title")


def typed(text: str) -> Shown:
    return Shown(f"> {text}", "typed")


def wrapped(memory: str) -> list[Shown]:
    return [Shown(line, "memory") for line in textwrap.wrap(memory, COLUMNS)]


def steps_of_debugging() -> list[Shown]:
    """The tool calls of the session in which it was debugged, with their ends and the time that it took."""
    path = next(SAMPLES.glob(f"projects/*/{DEBUGGED}.jsonl"))
    lines: list[Shown] = []
    times: list[datetime] = []
    for raw in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(raw)
        content = entry.get("message", {}).get("content")
        if isinstance(content, str) and lines:
            break
        if "timestamp" in entry:
            times.append(datetime.fromisoformat(entry["timestamp"]))
        for block in content if isinstance(content, list) else ():
            if block["type"] == "tool_use":
                given = block["input"]
                doing = given.get("command") or f"{block['name']} {Path(given['file_path']).name}"
                lines.append(Shown(f"● {doing}"))
            elif block["type"] == "tool_result" and str(block["content"]).startswith("Exit code"):
                lines[-1] = Shown(f"{lines[-1].text}  ✗ fails", "bad")
    seconds = (times[-1] - times[0]).total_seconds()
    return [*lines, Shown(f"{seconds:.0f} seconds, {len(lines)} tool calls, as on {times[0]:%Y-%m-%d}", "title")]


def draw(scenes: list[Scene]) -> str:
    """The scenes as an animated SVG. Where nothing may move, the scene ``STILL`` is shown."""
    rules, groups, begin = [], [], 0.0
    for number, scene in enumerate(scenes):
        end = begin + scene.seconds
        step = min(0.55, (scene.seconds - 2.5) / max(1, len(scene.lines)))
        rows = []
        for row, shown in enumerate(scene.lines):
            name = f"l{number}-{row}"
            rules.append(keyframes(name, begin + row * step, end, is_still=number == STILL))
            rows.append(
                f'<text id="{name}" x="{LEFT}" y="{TOP + row * LINE}" fill="{COLOURS[shown.colour]}">'
                f"{html.escape(cut(shown.text))}</text>"
            )
        groups.append("\n".join(rows))
        begin = end
    dots = "".join(f'<circle cx="{22 + 18 * i}" cy="20" r="5.5" fill="{c}"/>' for i, c in enumerate(DOTS))
    return PICTURE.format(
        width=WIDTH, height=HEIGHT, font=FONT, rules="\n".join(rules), dots=dots, groups="\n".join(groups)
    )


def cut(text: str) -> str:
    return text if len(text) <= COLUMNS else f"{text[: COLUMNS - 1].rstrip(' …')}…"


def keyframes(name: str, begin: float, end: float, *, is_still: bool) -> str:
    """Show an element from one second to another, again and again."""
    first, last = 100 * begin / SECONDS, 100 * end / SECONDS
    hidden = f"0%,{max(0, first - 0.01):.2f}%{{opacity:0}}" if first > 0 else ""
    shown = f"{first:.2f}%,{last - 0.01:.2f}%{{opacity:1}}"
    after = f"{last:.2f}%,100%{{opacity:0}}" if last < 100 else "100%{opacity:1}"
    rule = f"opacity:{int(is_still)};animation:k{name} {SECONDS}s infinite"
    return f"@keyframes k{name}{{{hidden}{shown}{after}}}\n#{name}{{{rule}}}"


DOTS = ("#ff5f57", "#febc2e", "#28c840")
PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t">
<title id="t">Without Engram an error is debugged again; with it, one dated line comes with the prompt.</title>
<style>
text{{font:{font}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}}
{rules}
@media(prefers-reduced-motion:reduce){{text{{animation:none!important}}}}
</style>
<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>
{dots}
{groups}
</svg>
"""


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/demo/demo.svg").write_text(draw(make_scenes()), encoding="utf-8")
