"""Stand-ins for ``launchctl``, ``systemctl`` and their companions: they record every call and keep a simple state."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engram.settings import Settings
from engram.setup.services import launchd, service_definition
from engram.system.process_lock import ProcessLock

#: launchctl: an agent takes three looks to unload, and ``bootstrap`` fails as often as the file ``busy`` says.
LAUNCHCTL = """
verb, target = words[0], words[-1]
label = target.rpartition("/")[2].removesuffix(".plist")
loaded, leaving = folder / f"loaded.{label}", folder / f"leaving.{label}"
if verb == "print":
    if target.count("/") == 1:
        sys.exit(0 if not (folder / "no-desktop").exists() else 113)
    if leaving.exists():
        left = int(leaving.read_text()) - 1
        leaving.write_text(str(left))
        if left <= 0:
            leaving.unlink()
            loaded.unlink()
    if not loaded.exists():
        print("Could not find service", file=sys.stderr)
        sys.exit(113)
    state = loaded.read_text()
    print(f"{target} = {{\\n\\tstate = {state}\\n")
    print("\\tpid = 4711" if state == "running" else "\\tlast exit code = 1")
elif verb == "bootstrap":
    busy = folder / "busy"
    left = int(busy.read_text()) if busy.exists() else 0
    if left > 0:
        busy.write_text(str(left - 1))
        print("Bootstrap failed: 5: Input/output error", file=sys.stderr)
        sys.exit(5)
    if (folder / "refused").exists():
        print("Bootstrap failed: 78: Function not implemented", file=sys.stderr)
        sys.exit(78)
    loaded.write_text("running")
elif verb == "bootout":
    if not loaded.exists():
        print("Boot-out failed: 3: No such process", file=sys.stderr)
        sys.exit(3)
    leaving.write_text("3")
elif verb == "kickstart":
    if not loaded.exists():
        sys.exit(113)
    loaded.write_text("running")
"""
#: systemctl --user: units are active or not.
SYSTEMCTL = """
words = words[1:]
verb, units = words[0], [word for word in words[1:] if not word.startswith("-")]
if verb == "is-system-running":
    print((folder / "state").read_text() if (folder / "state").exists() else "running")
    sys.exit(1)
if (folder / "refused").exists():
    print("Failed to connect to bus: No medium found", file=sys.stderr)
    sys.exit(1)
for unit in units:
    active = folder / f"active.{unit}"
    if verb in ("start", "restart"):
        active.touch()
    elif verb == "stop" and active.exists():
        active.unlink()
    elif verb == "show":
        is_active = active.exists()
        print(f"Id={unit}\\nLoadState=loaded\\nActiveState={'active' if is_active else 'inactive'}")
        print(f"SubState={'running' if is_active else 'dead'}\\nMainPID={4711 if is_active else 0}\\nNRestarts=2\\n")
"""
#: journalctl and loginctl say one thing.
JOURNALCTL = 'print("2026-11-22T20:00:00 host python: Error: no such folder")'
LOGINCTL = 'print("no")'


@dataclass(frozen=True)
class StandIns:
    """The recorded calls and the state of all stand-ins."""

    folder: Path

    def calls(self, *ignored: str) -> list[str]:
        """Return the calls so far, without those of the ignored verbs, and forget them."""
        path = self.folder / "calls"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        path.write_text("")
        return [" ".join(words) for words in lines if not set(ignored) & set(words)]

    def put(self, name: str, text: str = "") -> None:
        """Change the state."""
        (self.folder / name).write_text(text)


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """The stand-ins, first on PATH."""
    folder = tmp_path / "stand-ins"
    folder.mkdir()
    for name, body in {
        "launchctl": LAUNCHCTL,
        "systemctl": SYSTEMCTL,
        "journalctl": JOURNALCTL,
        "loginctl": LOGINCTL,
    }.items():
        script = folder / name
        script.write_text(
            f"#!{sys.executable} -IS\nimport json, sys\nfrom pathlib import Path\n"
            f"folder, words = Path({str(folder)!r}), sys.argv[1:]\n"
            'with (folder / "calls").open("a") as file:\n'
            f'    file.write(json.dumps([{name!r}, *words]) + "\\n")\n{body}'
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(launchd, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(service_definition, "READY_SECONDS", 0.5)
    return StandIns(folder)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A prepared memory folder."""
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    made.places.prepare()
    return made


@pytest.fixture
def working(settings: Settings) -> Iterator[None]:
    """Hold the locks of both processes: to everybody else they run."""
    locks = [ProcessLock(settings.places.worker_lock), ProcessLock(settings.places.watcher_lock)]
    yield
    for lock in locks:
        lock.release()


@pytest.fixture
def write_files() -> Callable[..., None]:
    """Write the files of a system, as the installer does."""

    def write(system: object) -> None:
        for change in system.files():  # type: ignore[attr-defined]
            change.path.parent.mkdir(parents=True, exist_ok=True)
            if change.content is not None:
                change.path.write_bytes(change.content)
            else:
                change.path.symlink_to(change.link_target)

    return write
