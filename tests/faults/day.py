"""A day of work in some minutes: 20 sessions grow, every hour the watcher and the worker are killed; run by
test_day.py.

Usage: python day.py FOLDER LINES DRIVER. Prints one JSON object: the largest sizes that were seen, and what memory.db
holds at the end. Needs /proc.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from planting import plant

from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.settings import Settings

SESSIONS, HOURS = 20, 24
#: Lines of one turn: prompt, four tool calls with results, the last words.
TURN_LINES = 10
#: Longest wait for the rest of the day's work, in seconds.
PATIENCE_SECONDS = 900
WORDS = (
    "importer retry budget schema cursor lantern falcon copper granite walnut meadow harbor juniper test cache".split()
)

TALK = (
    ("Let's use the {} from now on instead of the old one, it lost rows.", "Done: the {} is used now."),
    ("Always run make {} before you push.", "Understood."),
    ("Why does the {} fail?", "Root cause: the {} was never reset. Fixed by resetting it in importer.py."),
    ("Show me the {} again", "Here it is: {}."),
)


class Day:
    """Two processes, twenty growing files, and how large everything gets."""

    def __init__(self, folder: Path, driver: str) -> None:
        self.folder = folder
        self.settings = Settings(
            home=folder / "home", claude_folder=folder / "claude", embedding_model="hashed", sqlite_driver=driver
        )
        self.chance = random.Random(11)
        self.files = [
            self.settings.projects_folder / f"-work-p{n % 4}" / f"{uuid.UUID(int=n + 1)}.jsonl" for n in range(SESSIONS)
        ]
        for file in self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
        self.turns = self.entries = self.lines = self.kills = 0
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.largest: dict[str, float] = {}
        self.rss_by_hour: list[float] = []

    def start(self) -> None:
        """Start watcher and worker, as a service would."""
        for name in ("watch", "work"):
            if name not in self.running or self.running[name].poll() is not None:
                self.running[name] = subprocess.Popen(
                    [
                        sys.executable,
                        "-P",
                        "-m",
                        "engram.cli.main",
                        "--home",
                        str(self.settings.home),
                        "--claude-folder",
                        str(self.settings.claude_folder),
                        "--set",
                        "embedding_model=hashed",
                        "--set",
                        f"sqlite_driver={self.settings.sqlite_driver}",
                        "--set",
                        "sweep_seconds=5",
                        "--set",
                        "session_memories=400",
                        "--set",
                        "hourly_memories=100000",
                        name,
                    ],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )

    def kill(self) -> None:
        """SIGKILL both."""
        for process in self.running.values():
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.kills += 1

    def grow(self, lines: int) -> None:
        """Turns at the end of random sessions."""
        for _ in range(-(-lines // TURN_LINES)):
            file = self.chance.choice(self.files)
            with file.open("a", encoding="utf-8") as out:
                out.write("".join(json.dumps(line) + "\n" for line in self._turn(file)))
            self.turns += 1
            self.lines += TURN_LINES

    def _turn(self, file: Path) -> list[dict[str, Any]]:
        topic = " ".join(self.chance.sample(WORDS, 4))
        prompt, text = (part.format(topic) for part in self.chance.choice(TALK))
        found = [self._line(file, "user", f"{prompt} (question {self.turns})")]
        for number in range(4):
            call = {
                "type": "tool_use",
                "id": f"t{self.turns}-{number}",
                "name": "Bash",
                "input": {"command": f"make {topic}"},
            }
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": f"{topic}\n" * 20}
            found += [self._line(file, "assistant", [call]), self._line(file, "user", [result])]
        return [*found, self._line(file, "assistant", [{"type": "text", "text": text}])]

    def _line(self, file: Path, role: str, content: Any) -> dict[str, Any]:
        self.entries += 1
        entry = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
        return {
            "type": role,
            "uuid": entry,
            "sessionId": file.stem,
            "cwd": f"/work/{file.parent.name[6:]}",
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "version": "2.1.0",
            "message": {"role": role, "content": content, "id": f"msg_{entry}"},
        }

    def look(self) -> None:
        """Note how large everything is now."""
        for name, process in self.running.items():
            if process.poll() is None:
                self._look_at(name, process.pid)
        wal = self.settings.places.memory_db.with_name("memory.db-wal")
        self._note("wal_mb", wal.stat().st_size / 1e6 if wal.exists() else 0)
        logs = [(path, path.stat().st_size) for path in self.settings.places.logs.glob("*.log*")]
        self._note("log_mb", max((size for _, size in logs), default=0) / 1e6)
        self._note("log_files", len(logs))

    def _look_at(self, name: str, pid: int) -> None:
        try:
            status = dict(
                line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
            )
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, ValueError):
            return
        if "VmRSS" in status:
            self._note(f"{name}_rss_mb", int(status["VmRSS"].split()[0]) / 1024)
            self._note(f"{name}_threads", int(status["Threads"]))
            self._note(f"{name}_descriptors", descriptors)
            self._note(f"{name}_children", len(children))

    def _note(self, name: str, value: float) -> None:
        self.largest[name] = round(max(value, self.largest.get(name, 0)), 1)

    def live(self, lines: int) -> None:
        """The day, hour by hour."""
        for _ in range(HOURS):
            self.start()
            for _ in range(10):
                self.grow(-(-lines // (HOURS * 10)))
                time.sleep(0.4)
                self.look()
            self.rss_by_hour.append(self.largest.get("work_rss_mb", 0))
            self.kill()
            self.grow(TURN_LINES * 3)

    def finish(self) -> dict[str, Any]:
        """Start once more, wait until nothing is left, and count."""
        self.start()
        started = time.monotonic()
        store = open_store(self.settings.places.memory_db, driver=self.settings.sqlite_driver)
        scheduled = 0.0
        while time.monotonic() - started < PATIENCE_SECONDS:
            self.look()
            if not scheduled and count(store, "SELECT count(*) FROM turn") == self.turns:
                scheduled = round(time.monotonic() - started, 1)
            left = count(store, "SELECT count(*) FROM turn WHERE extracted_revision < revision")
            if scheduled and not left:
                break
            # The last turns of a session wait for silence; nobody waits 20 minutes for that here.
            plant(store, "UPDATE work SET due_at_ms = 0 WHERE kind = 'extract' AND state = 'due'")
            time.sleep(1)
        for process in self.running.values():
            process.terminate()
        codes = [process.wait(60) for process in self.running.values()]
        entries = count(store, "SELECT count(*) FROM entry")
        return {
            "lines": self.lines,
            "sessions": SESSIONS,
            "kills": self.kills,
            "largest": self.largest,
            "rss_by_hour": self.rss_by_hour,
            "all_read_seconds": scheduled,
            "all_done_seconds": round(time.monotonic() - started, 1),
            "turns": [count(store, "SELECT count(*) FROM turn"), self.turns],
            "entries": [entries, self.entries],
            "left": count(store, "SELECT count(*) FROM turn WHERE extracted_revision < revision"),
            "dead": count(store, "SELECT count(*) FROM work WHERE state = 'dead'"),
            "episodes": count(store, "SELECT count(*) FROM episode"),
            "damage": store.find_damage(),
            "exit_codes": codes,
            "database_mb": round(store.path.stat().st_size / 1e6, 1),
        }


def count(store: Store, sql: str) -> int:
    return int(store.value(sql))


if __name__ == "__main__":
    day = Day(Path(sys.argv[1]), sys.argv[3])
    day.live(int(sys.argv[2]))
    print(json.dumps(day.finish()))
