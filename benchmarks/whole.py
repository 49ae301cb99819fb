"""Measure time and memory for processing all transcripts once: read, redact, extract, embed, index.

    python benchmarks/whole.py --corpus DIR [--keep HOME] [--json]

DIR is a folder of Claude configuration folders, or one such folder; they are joined in a temporary folder. `engram up
--once` processes it in a separate process. ``--keep`` keeps the memory folder for `disk.py` and `memory.py`. Goal: at
most 6 minutes on two otherwise idle processors. On a busy machine, compare processor times instead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from engram.paths import Home

#: The goal, in seconds.
MAX_SECONDS = 360


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of transcripts")
    parser.add_argument("--keep", type=Path, help="leave the memory folder here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        claude = join(given.corpus, Path(name) / "claude")
        home = Home(given.keep or Path(name) / "home").prepare()
        found = run(home, claude)
    if given.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        print(f"{key:20} {value}")
    print(f"goal: at most {MAX_SECONDS} seconds")


def join(corpus: Path, target: Path) -> Path:
    """Create one Claude configuration folder with the transcripts of all."""
    folders = [corpus] if (corpus / "projects").is_dir() else [one for one in sorted(corpus.iterdir()) if one.is_dir()]
    for folder in folders:
        for project in (folder / "projects").glob("*"):
            shutil.copytree(project, target / "projects" / project.name, dirs_exist_ok=True)
    return target


def run(home: Home, claude: Path) -> dict[str, Any]:
    """Run everything once in a separate process, and return the figures."""
    environment = os.environ | {"ENGRAM_HOME": str(home.root), "CLAUDE_CONFIG_DIR": str(claude)}
    load_before, start = os.getloadavg()[0], time.monotonic()
    command = [sys.executable, "-m", "engram.cli.main", "up", "--once"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"engram up --once ended with {process.returncode}")
    report = json.loads(
        subprocess.run(
            [sys.executable, "-m", "engram.cli.main", "status", "--json"],
            env=environment,
            capture_output=True,
            check=True,
        ).stdout
    )
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    return {
        "turns": report["turns"],
        "episodes": report["episodes"],
        "wall_seconds": round(taken, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_rss_mb": round(peak, 1),
        "processors": os.cpu_count(),
        "load_before": round(load_before, 1),
    }


if __name__ == "__main__":
    main()
