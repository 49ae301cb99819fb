"""Machines over a folder are killed at random instants; nothing that was kept is lost or comes back.

python -m tests.hub_folder.folder_kills KILLS SEED     kills that many processes, then lets everybody sync and compares
python -m tests.hub_folder.folder_kills machine HOME   one machine that saves, edits, forgets and syncs
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engram.hub.client.rounds import sync_all
from engram.redaction import redact
from tests.fork_server import ForkedProcess
from tests.hub.machines import Machine
from tests.hub.steps import compare_journals, work_until_killed
from tests.hub_folder.synced import SyncedFolder

MACHINES = 3


def start(home: Path) -> ForkedProcess:
    """Start a machine."""
    code = f"from tests.hub_folder.folder_kills import main; main(['machine', {str(home)!r}])"
    return ForkedProcess(code, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run_kills(kills: int, seed: int) -> str:
    """Kill processes while files are carried badly, then compare; returns what was found.

    Raises AssertionError where something is wrong.
    """
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="engram-folder-kills-"))
    synced = SyncedFolder(folder / "synced", chance)
    homes = [folder / f"m{number}" for number in range(MACHINES)]
    try:
        phrase = ""
        for home in homes:
            with Machine.open(home) as machine:
                phrase = machine.use_folder(synced.add(), phrase).phrase or phrase
        machines = [start(home) for home in homes]
        try:
            for _ in range(kills):
                number = chance.randrange(MACHINES)
                _wait_until_started(homes[number], machines[number])
                for other in range(MACHINES):
                    synced.carry(other)
                time.sleep(chance.uniform(0.0, 0.4))
                machines[number].send_signal(signal.SIGKILL)
                machines[number].wait()
                machines[number] = start(homes[number])
        finally:
            for process in machines:
                process.kill()
                process.wait()
        return f"{kills} kills; {dict(synced.counts)}; {_compare(homes, synced)}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_started(home: Path, process: ForkedProcess) -> None:
    for _ in range(1_200):
        if (home / f"started-{process.pid}").exists():
            return
        assert process.poll() is None, "a machine ended by itself"
        time.sleep(0.05)
    raise AssertionError("a machine did not start")


def _compare(homes: list[Path], synced: SyncedFolder) -> str:
    with contextlib.ExitStack() as stack:
        machines = [stack.enter_context(Machine.open(home)) for home in homes]
        for _ in range(3):
            for machine in machines:
                for number in (*range(MACHINES), *range(MACHINES)):
                    synced.carry(number, is_good=True)
                done = sync_all(machine.store, machine.places, redact, is_forced=True)[0]
                assert not done.error, done.error
        return compare_journals(homes, machines)


def main(arguments: list[str]) -> None:
    """Run what the arguments say."""
    if arguments[0] == "machine":
        work_until_killed(Path(arguments[1]))
    else:
        print(run_kills(int(arguments[0]), int(arguments[1])))


if __name__ == "__main__":
    main(sys.argv[1:])
