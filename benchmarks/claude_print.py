"""What Engram's hooks cost a whole ``claude -p``: paired runs with and without them, against a server on this machine.

    python benchmarks/claude_print.py CLAUDE [--rounds N] [--json]

CLAUDE is the command of a real Claude Code. No request leaves the machine: a server here answers in the model's
place. A worker and a watcher run meanwhile. The two kinds of run take turns, so that a busy machine slows both
alike; the figure is the median of the differences within a pair. Target: 0.3 s.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engram.paths import Home
from engram_hooks.block import link_interpreter, settings_block

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

#: Longest that one run of Claude Code may take, in seconds.
RUN_SECONDS = 120


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claude")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    from claude_binary import StandInServer

    server = StandInServer({"text": "yes"})
    try:
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(Path(folder), options.claude, options.rounds, server.url)
    finally:
        server.close()
    if options.json:
        print(json.dumps(figures))
        return
    print(f"without hooks  {figures['without_s']:.2f} s")
    print(f"with hooks     {figures['with_s']:.2f} s")
    print(f"difference     {figures['difference_s']:+.2f} s   (goal: 0.30; {figures['sessions']} sessions recorded)")


def measure(folder: Path, claude: str, rounds: int, url: str) -> dict[str, float]:
    """Return medians in seconds without and with hooks and of the difference, and the number of recorded sessions."""
    home = Home(folder / "memory").prepare()
    link_interpreter(home)
    configuration = folder / "configuration"
    (configuration / "projects").mkdir(parents=True)
    settings = {"with": {"hooks": settings_block(home)["hooks"]}, "without": {}}
    for name, content in settings.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ENGRAM"))} | {
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(configuration),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-for-the-stand-in",
        "ENGRAM_HOME": str(home.root),
        "ENGRAM_CLAUDE_FOLDER": str(configuration),
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    project = folder / "project"
    project.mkdir()
    engram = [sys.executable, "-m", "engram.cli.main"]
    processes = [
        subprocess.Popen([*engram, name], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in ("watch", "work")
    ]
    try:
        run(claude, folder / "without.json", project, environment)
        times: dict[str, list[float]] = {"without": [], "with": []}
        for number in range(rounds):
            for name in ("without", "with") if number % 2 else ("with", "without"):
                times[name].append(run(claude, folder / f"{name}.json", project, environment))
        found = subprocess.run([*engram, "status", "--json"], env=environment, capture_output=True, check=False)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
    differences = [one - other for one, other in zip(times["with"], times["without"], strict=True)]
    return {
        "without_s": statistics.median(times["without"]),
        "with_s": statistics.median(times["with"]),
        "difference_s": statistics.median(differences),
        "sessions": json.loads(found.stdout or b"{}").get("sessions", -1),
    }


def run(claude: str, settings: Path, project: Path, environment: dict[str, str]) -> float:
    """Seconds that one ``claude -p`` takes from its start to its end."""
    started = time.perf_counter()
    subprocess.run(
        [claude, "-p", "say yes", "--settings", str(settings)],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=RUN_SECONDS,
    )
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
