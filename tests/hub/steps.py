"""What people and rules do on several machines at random, and what must be true of all of them in the end."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engram.enums import Actor, Importance, Judgement, Status
from engram.errors import EngramError
from engram.hub.client.connection import Limits
from engram.hub.client.rounds import sync_all
from engram.memories.correct import judge_memory
from engram.memories.save import edit_memory, pin_memory
from engram.models.hub.memory_statements import said_of_memory
from engram.models.hub.outgoing_statements import enqueue_all, load_outgoing
from engram.models.hub.spaces import private_space
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_records import Memory, all_memories
from engram.models.memories.watermarks import note_undone
from engram.redaction import redact
from engram.system.clock import FixedClock
from tests.hub.machines import Machine


class Steps:
    """The steps that need no hub, by the number of the machine that they are taken on."""

    def __init__(self, clock: FixedClock, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.true_clock = clock
        self.counts: Counter[str] = Counter()
        self._number = 0
        #: Memories that a put-back machine alone knew, or alone had forgotten: nobody can know of those.
        self.may_be_lost: set[str] = set()
        self.may_return: set[str] = set()
        #: Machine → what it forgot between joining and its first round: it says so when it meets the memory again.
        self._untold: dict[int, set[str]] = {}
        #: Machine → a copy of its home.
        self._backups: dict[int, Path] = {}
        self.saved: set[str] = set()
        self.forgotten: set[str] = set()
        self.machines: list[Machine] = []
        self.clocks: list[FixedClock] = []

    def _memory(self, number: int) -> Memory:
        memories = all_memories(self.machines[number].store)
        if not memories:
            raise EngramError("there is none")
        return self.random.choice(memories)

    def _save(self, number: int) -> None:
        made = self.machines[number].save(f"note {self.random.random()}")
        self.saved.add(id_of(self.machines[number], made))

    def _edit(self, number: int) -> None:
        changes: dict[str, Any] = self.random.choice(
            (
                {"content": f"edited {self.random.random()}"},
                {"summary": f"edited {self.random.random()}"},
                {"importance": self.random.choice(list(Importance))},
            )
        )
        edit_memory(self.machines[number].store, self._memory(number).episode_id, redact, actor=Actor.USER, **changes)

    def _pin(self, number: int) -> None:
        is_pinned = self.random.random() < 0.5
        pin_memory(self.machines[number].store, self._memory(number).episode_id, actor=Actor.USER, is_pinned=is_pinned)

    def _judge(self, number: int) -> None:
        judgement = self.random.choice((Judgement.WRONG, Judgement.OUTDATED))
        store = self.machines[number].store
        judge_memory(store, self._memory(number).episode_id, judgement, "why", redact, actor=Actor.USER)

    def _replace(self, number: int) -> None:
        old = self._memory(number)
        made = self.machines[number].save(f"instead {self.random.random()}", supersedes=old.episode_id)
        self.saved.add(id_of(self.machines[number], made))

    def _forget(self, number: int) -> None:
        machine = self.machines[number]
        before = {id_of(machine, memory) for memory in all_memories(machine.store)}
        chosen = self._memory(number)
        is_known = bool(said_of_memory(machine.store, chosen.episode_id))
        machine.forget(chosen.episode_id)
        after = {id_of(machine, memory) for memory in all_memories(machine.store)}
        self.forgotten |= before - after
        if not is_known:
            self._untold.setdefault(number, set()).update(before - after)

    def _tidy(self, number: int) -> None:
        """Merge, archive and supersede by a rule: all of it stays on this machine."""
        first, second = self._memory(number), self._memory(number)
        if first.episode_id == second.episode_id or not (first.is_current and second.is_current):
            return
        with self.machines[number].store.transaction() as tx:
            kind = self.random.choice(("merge", "supersede", "age"))
            if kind == "merge":
                joined = f"{first.content}\n\n---\n\n{second.content}"[:4_000]
                change_memory(tx, first, "merge", "alike", actor=Actor.TIDYING, content=joined)
            status = Status.SUPERSEDED if kind == "supersede" else Status.ARCHIVED
            follower = "" if kind == "age" else first.episode_id
            change_memory(tx, second, kind, "by rule", actor=Actor.TIDYING, status=status, superseded_by=follower)

    def _veto(self, number: int) -> None:
        with self.machines[number].store.transaction() as tx:
            note_undone(tx, [(self.random.choice(("merge", "archive")), self._memory(number).episode_id)])

    def _jump(self, number: int) -> None:
        self.clocks[number].advance(self.random.choice((-86_400, -400, 400, 5_000, 90_000, 31_536_000)))

    def _back_up(self, number: int) -> None:
        machine = self.machines[number]
        target = self.folder / f"backup {number}"
        shutil.rmtree(target, ignore_errors=True)
        machine.store.checkpoint("TRUNCATE")
        shutil.copytree(machine.places.root, target)
        self._backups[number] = target

    def _put_back(self, number: int) -> None:
        if number not in self._backups:
            return
        machine = self.machines[number]
        lost_ids, forgotten_ids = self._unsaid(machine)
        machine.store.close()
        shutil.rmtree(machine.places.root)
        shutil.copytree(self._backups[number], machine.places.root)
        self.may_be_lost |= lost_ids
        self.may_return |= forgotten_ids | self._untold.pop(number, set())

    def _unsaid(self, machine: Machine) -> tuple[set[str], set[str]]:
        """Memories, and forgotten ones, that this machine has still to tell the others."""
        space = private_space(machine.store)
        if space is None:
            return set(), set()
        # A machine that just joined notes at its next round what it has to say.
        enqueue_all(machine.store, space)
        dirty = load_outgoing(machine.store, space.id, 1 << 31)
        return (
            {memory.memory_id.hex() for memory in dirty if not memory.is_forgotten},
            {memory.memory_id.hex() for memory in dirty if memory.is_forgotten},
        )

    def compare(self, states: list[dict[str, Any]]) -> None:
        """Fail where the machines say different things, or something is lost, came back or still waits."""
        for number, state in enumerate(states[1:], 1):
            different = {key for key in {*state, *states[0]} if state.get(key) != states[0].get(key)}
            assert not different, f"machine {number} differs in {sorted(different)[:3]}: " + "; ".join(
                f"{states[0].get(key)} | {state.get(key)}" for key in sorted(different)[:1]
            )
        there = set(states[0])
        lost = self.saved - self.forgotten - there - self.may_be_lost
        back = (self.forgotten & there) - self.may_return
        assert not lost, f"lost: {sorted(lost)[:3]}"
        assert not back, f"came back: {sorted(back)[:3]}"
        for machine in self.machines:
            space = private_space(machine.store)
            assert space is not None
            assert load_outgoing(machine.store, space.id, 10) == []


def id_of(machine: Machine, memory: Memory) -> str:
    known = said_of_memory(machine.store, memory.episode_id)
    return known[0].memory_id.hex() if known else memory.stable_id


# -- Machines that are killed: each notes in a journal what was committed.


def work_until_killed(home: Path, limits: Limits | None = None) -> None:
    """Do what people do, as fast as it goes, and note in a journal what was committed."""
    chance = random.Random(os.getpid())
    with Machine.open(home) as machine, (home / "journal").open("a") as journal:
        (home / f"started-{os.getpid()}").touch()
        while True:
            step = chance.random()
            here = [memory for memory in all_memories(machine.store) if memory.is_current]
            if step < 0.3:
                made = machine.save(f"note {chance.random()}")
                print("saved", made.stable_id, file=journal, flush=True)
            elif step < 0.45 and here:
                text = f"edited {chance.random()}"
                edit_memory(machine.store, chance.choice(here).episode_id, redact, actor=Actor.USER, content=text)
            elif step < 0.5 and len(here) > 5:
                gone = chance.choice(here)
                # Before: a kill in between leaves a memory that may or may not be there.
                print("forgetting", gone.stable_id, file=journal, flush=True)
                machine.forget(gone.episode_id)
                print("forgotten", gone.stable_id, file=journal, flush=True)
            else:
                with contextlib.suppress(EngramError):
                    sync_all(machine.store, machine.places, redact, is_forced=True, limits=limits)


def compare_journals(homes: Sequence[Path], machines: Sequence[Machine]) -> str:
    """Compare what machines say with what they had noted; returns the figures, and fails where something is wrong."""
    states = [machine.said() for machine in machines]
    assert all(state == states[0] for state in states), "the machines differ"
    lines = [line.split() for home in homes for line in (home / "journal").read_text().splitlines()]
    by_word = {word: {line[1] for line in lines if line[0] == word} for word in ("saved", "forgetting", "forgotten")}
    lost = by_word["saved"] - by_word["forgetting"] - set(states[0])
    back = by_word["forgotten"] & set(states[0])
    assert not lost, f"lost: {sorted(lost)[:3]}"
    assert not back, f"came back: {sorted(back)[:3]}"
    sums = f"{len(by_word['saved'])} saved, {len(by_word['forgotten'])} forgotten, {len(states[0])} there"
    return f"{sums}, 0 lost, 0 back"
