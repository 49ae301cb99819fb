"""Replicas of one folder, and a sync program between them that is late, mixes up, cuts, doubles and restores files."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

#: Names that sync programs give to copies of a file: of Syncthing, Dropbox and Google Drive.
COPIES = ("{stem}.sync-conflict-20260101-120000-ABCDEFG.seg", "{stem} (Ada's conflicted copy).seg", "{stem} (1).seg")
#: What else lies in such folders.
FOREIGN = (".DS_Store", "desktop.ini", ".~lock.seg#", "notes.txt")


class SyncedFolder:
    """The same folder on several machines. Nothing moves but by ``carry``."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root = root
        self.random = chance
        self.counts: Counter[str] = Counter()
        self.replicas: list[Path] = []
        #: Replica → path → bytes, as the sync program left it.
        self._known: list[dict[str, bytes]] = []
        #: Replica → what is on its way to it, by path, the oldest first: bytes, or None for a deletion.
        self._queues: list[dict[str, list[bytes | None]]] = []
        #: Everything that ever was, for what is put back.
        self._history: dict[str, bytes] = {}
        self._snapshot: dict[str, bytes] | None = None
        #: Path and bytes of what a person or a disk deleted or cut, or what a folder that was put back lacks.
        self.damaged: list[tuple[str, bytes]] = []

    def add(self) -> Path:
        """Make a replica, with what the first one has."""
        place = self.root / f"replica{len(self.replicas)}"
        place.mkdir(parents=True)
        self.replicas.append(place)
        self._known.append({})
        self._queues.append({})
        if len(self.replicas) > 1:
            for path, data in {**self._known[0], **_read(self.replicas[0])}.items():
                self._queues[-1].setdefault(path, []).append(data)
            for path, coming in self._queues[0].items():
                self._queues[-1].setdefault(path, []).extend(coming)
        return place

    def carry(self, number: int, *, is_good: bool = False) -> None:
        """Send what changed in a replica, and bring some of what is on its way to it; all of it where it is good."""
        self._send(number)
        queue = self._queues[number]
        paths = list(queue)
        self.random.shuffle(paths)
        for path in paths:
            if not is_good and self.random.random() < 0.4:
                self.counts["late"] += 1
                continue
            for data in queue.pop(path):
                self._bring(number, path, data, is_good=is_good)

    def settle(self) -> None:
        """Let replicas agree where a file was deleted in one and written in another, as sync programs do in the end.

        What some replica has counts more than that it was deleted, and whole files more than others.
        """
        for queue in self._queues:
            assert not queue, "carry everything first"
        everything: dict[str, bytes] = {}
        for replica in self.replicas:
            for path, data in _read(replica).items():
                if len(data) > len(everything.get(path, b"")):
                    everything[path] = data
        for number, replica in enumerate(self.replicas):
            for path, data in everything.items():
                (replica / path).parent.mkdir(parents=True, exist_ok=True)
                (replica / path).write_bytes(data)
            self._known[number] = dict(everything)

    def _send(self, number: int) -> None:
        now = _read(self.replicas[number])
        known = self._known[number]
        for path in {*now, *known}:
            if now.get(path) != known.get(path):
                for other, queue in enumerate(self._queues):
                    if other != number:
                        queue.setdefault(path, []).append(now.get(path))
        self._history |= now
        self._known[number] = now

    def _bring(self, number: int, path: str, data: bytes | None, *, is_good: bool) -> None:
        place = self.replicas[number] / path
        if data is None:
            place.unlink(missing_ok=True)
            self._known[number].pop(path, None)
            return
        fault = "" if is_good or not data else self.random.choices(("", "cut", "doubled", "empty"), (12, 2, 1, 1))[0]
        self.counts[fault] += bool(fault)
        place.parent.mkdir(parents=True, exist_ok=True)
        if fault in ("cut", "empty"):
            # The rest comes later.
            self._queues[number].setdefault(path, []).append(data)
            data = data[: self.random.randrange(len(data))] if fault == "cut" else b""
        place.write_bytes(data)
        self._known[number][path] = data
        if fault == "doubled":
            copy = self.random.choice(COPIES).format(stem=place.stem)
            place.with_name(copy).write_bytes(data)

    # -- what befalls it

    def put_back_file(self) -> None:
        """Let a file come back that was deleted."""
        gone = [path for path in self._history if not (self.replicas[0] / path).exists()]
        if gone:
            path = self.random.choice(gone)
            place = self.random.choice(self.replicas) / path
            if place.parent.is_dir():
                place.write_bytes(self._history[path])
                self.counts["put back"] += 1

    def lose_file(self) -> None:
        """Delete or cut a file in one replica, as a person or a disk does."""
        number = self.random.randrange(len(self.replicas))
        paths = [path for path in _read(self.replicas[number]) if path.endswith(".seg")]
        if not paths:
            return
        path = self.random.choice(paths)
        self.damaged += [file for file in self.files() if file[0] == path]
        place = self.replicas[number] / path
        if self.random.random() < 0.5:
            place.unlink()
        else:
            place.write_bytes(place.read_bytes()[:-1])
        self.counts["lost"] += 1

    def add_foreign(self) -> None:
        """Put something there that is not Engram's, or not this space's."""
        place = self.random.choice(self.replicas) / "spaces"
        folders = [*place.glob("*/*"), *place.glob("*")]
        folders = [folder for folder in folders if folder.is_dir()]
        if folders:
            folder = self.random.choice(folders)
            names = [*FOREIGN, f"{self.random.randrange(1, 30):08}-00000031-{self.random.getrandbits(128):032x}.seg"]
            (folder / self.random.choice(names)).write_bytes(self.random.randbytes(200))
            self.counts["foreign"] += 1

    def put_back(self) -> None:
        """Keep a copy of the whole folder, or put it back everywhere."""
        if self._snapshot is None or self.random.random() < 0.5:
            self._snapshot = _read(self.random.choice(self.replicas))
            return
        self.damaged += [file for file in self.files() if self._snapshot.get(file[0]) != file[1]]
        for number, replica in enumerate(self.replicas):
            for path in _read(replica):
                (replica / path).unlink()
            for path, data in self._snapshot.items():
                (replica / path).parent.mkdir(parents=True, exist_ok=True)
                (replica / path).write_bytes(data)
            self._known[number] = dict(self._snapshot)
            self._queues[number].clear()
        self.counts["folder put back"] += 1

    def files(self) -> list[tuple[str, bytes]]:
        """Return path and bytes of every file in any replica or on its way to one."""
        there = [file for replica in self.replicas for file in _read(replica).items()]
        coming = [(path, data) for queue in self._queues for path, many in queue.items() for data in many if data]
        return there + coming

    def holds(self, text: bytes) -> list[str]:
        """Return the files of any replica that hold some bytes."""
        return [path for replica in self.replicas for path, data in _read(replica).items() if text in data]

    def close(self) -> None:
        """Delete everything."""
        shutil.rmtree(self.root, ignore_errors=True)


def _read(replica: Path) -> dict[str, bytes]:
    """Return path → bytes of everything that a sync program carries: no temporary files."""
    return {
        str(path.relative_to(replica)): path.read_bytes()
        for path in sorted(replica.rglob("*"))
        if path.is_file() and not path.name.endswith(".tmp")
    }
