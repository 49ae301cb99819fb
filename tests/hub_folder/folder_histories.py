"""Random histories of three machines over a folder: whatever the sync program does, all agree in the end.

The folder delays, mixes up, cuts and doubles files, puts back single ones and the whole folder, and loses some; clocks
jump, machines are cloned and put back to backups.

    python -m tests.hub_folder.folder_histories FIRST_SEED RUNS     prints a line for every run that fails, and the sums
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from engram.errors import EngramError
from engram.hub.client.folder_files import COPY, digest_of, numbers_of
from engram.hub.client.membership import Keyring
from engram.hub.client.rounds import sync_all
from engram.hub.protocol.frames import open_segment
from engram.models.hub.memory_statements import said_in_space
from engram.models.hub.spaces import list_servers, private_space
from engram.redaction import redact
from engram.system.clock import FixedClock
from tests.hub.machines import Machine
from tests.hub.steps import Steps
from tests.hub_folder.synced import SyncedFolder

#: Machines, steps of one history, and rounds at its end after which everybody must agree.
MACHINES, STEPS, LAST_ROUNDS = 3, 60, 8
#: Between the last rounds: longer than what is missing is waited for, in seconds.
LAST_SECONDS = 1_800


class FolderHistory(Steps):
    """One random history."""

    def __init__(self, seed: int, folder: Path, stack: contextlib.ExitStack) -> None:
        super().__init__(FixedClock(), seed, folder)
        self.synced = SyncedFolder(folder / "synced", self.random)
        self._stack = stack
        #: What a machine that was put back had known and no machine knows any more: id, and whether it was forgotten.
        self._only_in_files: set[tuple[str, bool]] = set()
        #: Name of a whole file → what it says.
        self._rows: dict[str, set[tuple[str, bool]]] = {}
        #: Machine → its replica; a clone shares one.
        self.places: list[int] = []
        for number in range(MACHINES):
            self._add_machine(folder / f"m{number}")
            if self.random.random() < 0.3:
                self._save(number)
            phrase = self.machines[0].phrase if number else ""
            self.machines[number].use_folder(self.synced.add(), phrase)
            self.places.append(number)
            self._sync(number)

    def _add_machine(self, home: Path) -> None:
        clock = FixedClock(self.true_clock.at_ms)
        self.machines.append(self._stack.enter_context(Machine.open(home, clock=clock)))
        self.clocks.append(clock)

    def run(self) -> None:
        """Take every step, then let the folder and the machines come to rest, and check."""
        for _ in range(STEPS):
            self.true_clock.advance(self.random.uniform(0.001, 400))
            number = self.random.randrange(len(self.machines))
            self.clocks[number].advance(self.random.uniform(0.001, 400))
            steps = {
                self._save: 10,
                self._edit: 12,
                self._pin: 5,
                self._judge: 3,
                self._replace: 4,
                self._forget: 5,
                self._tidy: 6,
                self._veto: 2,
                self._sync: 30,
                self._carry: 25,
                self._jump: 2,
                self._compact: 3,
                self._put_file_back: 3,
                self._lose_file: 1.5,
                self._add_foreign: 1.5,
                self._put_folder_back: 1,
                self._back_up: 1.5,
                self._put_back: 1,
                self._clone: 0.5,
            }
            (step,) = self.random.choices(list(steps), list(steps.values()))
            with contextlib.suppress(EngramError):
                step(number)
                self.counts[step.__name__.strip("_")] += 1
            self._look_for_lost()
        self.rest()
        self.compare([machine.said() for machine in self.machines])
        self.counts.update(self.synced.counts)

    def rest(self) -> None:
        """Carry everything, and let every machine make its rounds."""
        self._carry_all()
        self.synced.settle()
        self._look_for_lost()
        for _ in range(LAST_ROUNDS):
            for number, machine in enumerate(self.machines):
                self._carry_all()
                self.clocks[number].advance(LAST_SECONDS)
                (done,) = sync_all(machine.store, machine.places, redact, is_forced=True)
                assert not done.error, done.error
        self._carry_all()

    def _carry_all(self) -> None:
        for _ in range(2):
            for number in range(len(self.synced.replicas)):
                self.synced.carry(number, is_good=True)

    # -- steps

    def _sync(self, number: int) -> None:
        machine = self.machines[number]
        made = sync_all(machine.store, machine.places, redact, is_forced=True)
        if not any(done.error for done in made):
            self._untold.pop(number, None)

    def _carry(self, number: int) -> None:
        self.synced.carry(self.places[number])

    def _compact(self, number: int) -> None:
        """Save so much that small files are joined."""
        for _ in range(4):
            self._save(number)
            self._sync(number)

    def _put_file_back(self, number: int) -> None:
        self.synced.put_back_file()

    def _lose_file(self, number: int) -> None:
        self.synced.lose_file()

    def _add_foreign(self, number: int) -> None:
        self.synced.add_foreign()

    def _put_folder_back(self, number: int) -> None:
        self.synced.put_back()

    def _put_back(self, number: int) -> None:
        known = self._known([self.machines[number]])
        super()._put_back(number)
        if number in self._backups:
            self._only_in_files |= known - self._known(self.machines)

    def _look_for_lost(self) -> None:
        """Expect no more what was in files alone, after a machine was put back, and then went with damaged files."""
        if not self._only_in_files:
            return
        self._only_in_files -= self._known(self.machines)
        gone = self._only_in_files & self._said_by(self.synced.damaged) - self._said_by(self.synced.files())
        self.may_be_lost |= {memory for memory, is_forgotten in gone if not is_forgotten}
        self.may_return |= {memory for memory, is_forgotten in gone if is_forgotten}
        self.counts["gone with files"] += len(gone)
        self._only_in_files -= gone

    def _known(self, machines: Iterable[Machine]) -> set[tuple[str, bool]]:
        """Which memories any of some machines knows, and which it knows to be forgotten."""
        known = set[tuple[str, bool]]()
        for machine in machines:
            space = private_space(machine.store)
            assert space is not None
            known |= {(said.memory_id.hex(), said.is_forgotten) for said in said_in_space(machine.store, space.id)}
        return known

    def _said_by(self, files: Iterable[tuple[str, bytes]]) -> set[tuple[str, bool]]:
        """What whole files say; what is cut or foreign says nothing."""
        store, places = self.machines[0].store, self.machines[0].places
        space = private_space(store)
        assert space is not None
        keys = Keyring(places.hub_keys).keys(list_servers(store)[0].url, space.ns_id)
        said = set[tuple[str, bool]]()
        for path, data in files:
            stem = COPY.fullmatch(Path(path).name)
            if stem is None or hashlib.blake2b(data, digest_size=16).hexdigest() != digest_of(stem[1]):
                continue
            if stem[1] not in self._rows:
                device = int(Path(path).parent.name, 16)
                rows = open_segment(keys, space.ns_id, device, numbers_of(stem[1]), data).rows
                self._rows[stem[1]] = {(row.memory_id.hex(), row.is_forgotten) for row in rows}
            said |= self._rows[stem[1]]
        return said

    def _clone(self, number: int) -> None:
        """Copy a machine with its disk: the copy has a replica of its own, or uses the same share."""
        if len(self.machines) >= 5:
            return
        machine = self.machines[number]
        machine.store.checkpoint("TRUNCATE")
        home = self.folder / f"clone {len(self.machines)}"
        shutil.copytree(machine.places.root, home)
        self._add_machine(home)
        place = self.places[number]
        if self.random.random() < 0.5:
            replica = self.synced.add()
            place = len(self.synced.replicas) - 1
            shutil.copytree(self.synced.replicas[self.places[number]], replica, dirs_exist_ok=True)
            self.machines[-1].use_folder(replica)
        self.places.append(place)


def run_history(seed: int) -> Counter[str]:
    """Run the history of a seed. Raises AssertionError where the machines do not agree in the end."""
    folder = Path(tempfile.mkdtemp(prefix="engram-folder-"))
    try:
        with contextlib.ExitStack() as stack:
            history = FolderHistory(seed, folder, stack)
            history.run()
            return history.counts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(first: int, runs: int) -> int:
    """Run many histories; returns how many failed."""
    import logging

    logging.disable(logging.CRITICAL)
    failed, sums = 0, Counter[str]()
    for seed in range(first, first + runs):
        try:
            sums += run_history(seed)
        except Exception as error:  # noqa: BLE001 - a program that counts failures
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc()
    counts = ", ".join(f"{name} {count}" for name, count in sorted(sums.items()))
    print(f"{runs} histories, {failed} failed; {counts}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]))))
