"""Random histories of several machines: whatever happens in whatever order, all agree in the end.

Three to five machines save, edit, pin, replace, undo, forget and tidy. Requests and answers are cut, clocks jump, disks
are cloned, backups of machines are put back, devices are renewed, and the hub itself is put back to an older copy.

    python -m tests.hub.histories FIRST_SEED RUNS          prints a line for every run that fails, and the sums
    python -m tests.hub.histories FIRST_SEED RUNS proxy    through a proxy that delays, drips, cuts and lies, without
                                                           copies: each machine must stay one device
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from engram.errors import EngramError, HubUnreachable
from engram.hub.client import membership, rounds
from engram.hub.client.connection import Connection
from engram.hub.client.membership import Keyring, leave_hub
from engram.hub.server.accounts import Unknown, find_asker
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.hub.spaces import list_servers
from engram.models.rescue.backup import list_backups, make_backup
from engram.models.rescue.restore import restore_backup
from engram.redaction import redact
from engram.system.clock import FixedClock
from tests.hub.machines import Hub, HubCopy, Machine
from tests.hub.postgres import running_postgres, system_folder, wheel_folder
from tests.hub.proxy import FAULTS, IMPATIENT, Proxy
from tests.hub.steps import Steps

#: Steps of one history, and rounds at its end after which everybody must agree.
STEPS, LAST_ROUNDS = 45, 4
#: Share of requests that are cut in a history with a bad line.
CUT_SHARE = 0.15
#: Share of requests to which a proxy does something.
FAULT_SHARE = 0.3


class _BadLine(Connection):
    """A connection whose requests and answers are cut at random."""

    chance = random.Random(0)
    share = 0.0
    cuts = 0

    def send(self, what: str, body: bytes, *, extra_seconds: float = 0) -> bytes:
        is_cut, is_lost = (self.chance.random() < self.share for _ in range(2))
        if is_cut:
            type(self).cuts += 1
            raise HubUnreachable("the request was cut")
        data = super().send(what, body, extra_seconds=extra_seconds)
        if is_lost:
            type(self).cuts += 1
            raise HubUnreachable("the answer was cut")
        return data


class History(Steps):
    """One random history."""

    def __init__(
        self,
        hub: Hub,
        clock: FixedClock,
        seed: int,
        folder: Path,
        stack: contextlib.ExitStack,
        proxy: Proxy | None = None,
    ) -> None:
        self.proxy = proxy
        super().__init__(clock, seed, folder)
        self.hub = hub
        self._stack = stack
        self._name = f"member {seed}"
        self.with_hub_put_back = True
        self._hub_copy: HubCopy | None = None
        self._add_machine()
        self.machines[0].join(hub, hub.invite(self._name), url=self._url)
        self.phrase = self.machines[0].phrase
        self._sync(0)
        for _ in range(self.random.randint(2, 4)):
            self._add_machine()
            self.machines[-1].join(hub, hub.invite(self._name), url=self._url, phrase=self.phrase)

    def _add_machine(self, home: Path | None = None) -> None:
        self._number += 1
        clock = FixedClock(self.true_clock.at_ms)
        place = home or self.folder / f"m{self._number}"
        self.machines.append(self._stack.enter_context(Machine.open(place, clock=clock)))
        self.clocks.append(clock)

    @property
    def _url(self) -> str:
        return self.hub.url if self.proxy is None else self.proxy.url

    # -- the steps

    def run(self) -> None:
        """Take every step, then let the machines sync until they must agree, and check."""
        _BadLine.chance, _BadLine.share = self.random, self.random.choice((0.0, CUT_SHARE))
        if self.proxy is not None:
            _BadLine.share = 0.0
            chance = self.proxy.chance = random.Random(self.random.random())
            self.proxy.fault = lambda what: chance.choice(FAULTS) if chance.random() < FAULT_SHARE else ""
        for _ in range(STEPS):
            self.true_clock.advance(self.random.uniform(0.001, 200))
            number = self.random.randrange(len(self.machines))
            self.clocks[number].advance(self.random.uniform(0.001, 200))
            steps = {
                self._save: 10,
                self._edit: 12,
                self._pin: 5,
                self._judge: 3,
                self._replace: 4,
                self._forget: 5,
                self._tidy: 8,
                self._veto: 2,
                self._sync: 30,
                self._jump: 2,
                self._back_up: 2,
                self._put_back: 1.5,
                self._back_up_daily: 1.5,
                self._restore: 1.5,
                self._clone: 0.7,
                self._renew: 0.7,
                self._put_hub_back: 0.7,
            }
            if self.proxy is not None:
                # No copies: each machine must stay the one device that it is.
                for befalling in (self._put_back, self._restore, self._clone, self._renew, self._put_hub_back):
                    del steps[befalling]
            (step,) = self.random.choices(list(steps), list(steps.values()))
            with contextlib.suppress(EngramError):
                step(number)
                self.counts[step.__name__.strip("_")] += 1
        _BadLine.share = 0.0
        if self.proxy is not None:
            self.counts.update({f"fault {fault}": count for fault, count in self.proxy.counts.items() if fault})
            self.proxy.fault = lambda what: ""
        for _ in range(LAST_ROUNDS):
            for number in range(len(self.machines)):
                self.true_clock.advance(1)
                self.machines[number].sync()
        self._check()

    def _sync(self, number: int) -> None:
        machine = self.machines[number]
        limits = None if self.proxy is None else IMPATIENT
        made = rounds.sync_all(machine.store, machine.places, redact, is_forced=True, limits=limits)
        if not any(done.error for done in made):
            self._untold.pop(number, None)

    # -- what befalls machines and the hub

    def _put_back(self, number: int) -> None:
        super()._put_back(number)
        if number in self._backups and self._is_shut_out(self.machines[number]):
            # Its device was removed when the machine left the hub, after the backup.
            self._join_anew(self.machines[number])

    def _back_up_daily(self, number: int) -> None:
        make_backup(self.machines[number].store, self.machines[number].places.backups, keep=1)

    def _restore(self, number: int) -> None:
        """Restore the daily backup, which carries over what was said and forgotten since: nothing may be lost."""
        machine = self.machines[number]
        backups = list_backups(machine.places.backups, self.clocks[number])
        if backups:
            machine.store.close()
            path, driver = machine.places.memory_db, machine.store.driver
            restore_backup(path, backups[0].path, driver=driver, carry_more=carry_hubs)
            machine.store.open()

    def _is_shut_out(self, machine: Machine) -> bool:
        server = list_servers(machine.store)[0]
        try:
            find_asker(self.hub.database, Keyring(machine.places.hub_keys).token(server.url))
        except Unknown:
            return True
        return False

    def _clone(self, number: int) -> None:
        if len(self.machines) >= 6:
            return
        machine = self.machines[number]
        machine.store.checkpoint("TRUNCATE")
        home = self.folder / f"clone {self._number}"
        shutil.copytree(machine.places.root, home)
        self._add_machine(home)

    def _renew(self, number: int) -> None:
        """Leave and join again: the machine says everything anew."""
        machine = self.machines[number]
        servers = list_servers(machine.store)
        devices = [server.device_id for other in self.machines for server in list_servers(other.store)]
        if not servers or devices.count(servers[0].device_id) > 1:
            return  # a copy of it would be shut out
        forgotten_ids = self._unsaid(machine)[1]
        self.may_return |= forgotten_ids
        self._join_anew(machine)

    def _join_anew(self, machine: Machine) -> None:
        share, _BadLine.share = _BadLine.share, 0.0
        leave_hub(machine.store, machine.places, list_servers(machine.store)[0])
        machine.join(self.hub, self.hub.invite(self._name), url=self._url, phrase=self.phrase)
        _BadLine.share = share

    def _put_hub_back(self, number: int) -> None:
        """Keep a copy of the hub, or put it back, with the devices that joined since."""
        if not self.with_hub_put_back:
            return
        if self._hub_copy is None or self.random.random() < 0.5:
            self._hub_copy = HubCopy.take(self.hub)
            return
        later = HubCopy.take(self.hub)
        for name in ("member", "device", "code", "seat", "namespace"):
            if name != "namespace":
                known = {key: rest for key, *rest in self._hub_copy.tables[name]}
                rows = [(key, *known.get(key, rest)) for key, *rest in later.tables[name]]
                self._hub_copy.tables[name] = rows
        # Renewed while the copy was old: their last push is of the copy's time.
        self._hub_copy.put_back(self.hub)

    # -- the check

    def _check(self) -> None:
        states = [machine.said() for machine in self.machines]
        if self.proxy is not None:
            query = "SELECT 1 FROM hub.device JOIN hub.member m USING (member_id) WHERE m.name = %s"
            assert len(self.hub.rows(query, self._name)) == len(self.machines), "a machine became several devices"
        self.compare(states)


@contextlib.contextmanager
def with_bad_line() -> Iterator[type[_BadLine]]:
    """Let rounds use a connection that is cut at random."""
    before = membership.Connection
    membership.Connection = _BadLine  # type: ignore[misc]
    try:
        yield _BadLine
    finally:
        membership.Connection = before  # type: ignore[misc]


def run_history(
    hub: Hub, clock: FixedClock, seed: int, *, with_hub_put_back: bool = True, proxy: Proxy | None = None
) -> Counter[str]:
    """Run the history of a seed, with a proxy before the hub or without.

    Raises AssertionError where the machines do not agree in the end.
    """
    folder = Path(tempfile.mkdtemp(prefix="engram-history-"))
    try:
        with contextlib.ExitStack() as stack, with_bad_line() as line:
            line.cuts = 0
            history = History(hub, clock, seed, folder, stack, proxy)
            history.with_hub_put_back = with_hub_put_back
            history.run()
            history.counts["cuts"] = line.cuts
            return history.counts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(first: int, runs: int, *, with_proxy: bool = False) -> int:
    """Run many histories, through a proxy or not; returns how many failed."""
    import logging

    logging.disable(logging.CRITICAL)
    programs = wheel_folder() or system_folder()
    assert programs is not None, "no PostgreSQL is installed"
    failed, sums = 0, Counter[str]()
    with running_postgres(programs) as server:
        for seed in range(first, first + runs):
            clock = FixedClock()
            with Hub.running(server.make_database(), clock) as hub:
                try:
                    if with_proxy:
                        with Proxy.before(hub.url) as proxy:
                            sums += run_history(hub, clock, seed, proxy=proxy)
                    else:
                        sums += run_history(hub, clock, seed)
                except Exception as error:  # noqa: BLE001 - a program that counts failures
                    failed += 1
                    print(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}", flush=True)
                    if not isinstance(error, AssertionError):
                        traceback.print_exc()
        counts = ", ".join(f"{name} {count}" for name, count in sorted(sums.items()))
        print(f"{runs} histories, {failed} failed; {counts}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]), with_proxy="proxy" in sys.argv[3:])))
