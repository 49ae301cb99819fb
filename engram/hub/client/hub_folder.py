"""Use a folder as the hub of one person's machines: a synced folder, a mounted share or a git checkout.

No server is needed. Files are ``spaces/SPACE/DEVICE/FIRST-LAST-HASH.seg``. Each machine writes complete new files into
its own folder, and no other machine ever writes there. A file is complete when its content matches the hash in its
name, and it is never changed; the next file has the next number. A file that replaces others covers all their numbers.
Therefore no lock is needed, the order in which files arrive does not matter, and no sync program can cause a conflict
between two machines.

What was read and written is recorded in memory.db, in the round's transactions (``FolderState``). Data that has been
missing for ten minutes is rewritten by the machine that wrote it or, if that machine was removed, by those that had
read it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from engram.errors import BadRequest, HubRefused, HubUnreachable
from engram.hub.client.connection import LIMITS, Limits, Transport
from engram.hub.client.folder_files import (
    COPY,
    FETCH_EVERY_MS,
    GIT,
    MAX_DEVICES,
    MAX_RETIRED,
    MAX_SMALL_FILES,
    MEMBER_ID,
    ON_ITS_WAY,
    PATIENCE_MS,
    SMALL_BYTES,
    FolderState,
    StoredFile,
    device_id_of,
    devices_in,
    digest_of,
    folder_of,
    is_whole,
    list_files,
    machines_in,
    missing_numbers,
    neighbours,
    newest_ms,
    notes_of_spaces,
    numbers_of,
    space_folder,
    space_id_of,
    using,
)
from engram.hub.client.git_folder import GitFolder
from engram.hub.protocol.frames import (
    MAX_SEGMENT_BYTES,
    NO_PUSH,
    PROTOCOL,
    TAKEN,
    Answers,
    Page,
    Push,
    Row,
    Segment,
    WrongKey,
    key_id_of,
    open_segment,
    seal_segment,
)
from engram.hub.protocol.requests import HelloAnswer, HelloRequest, Membership, SpaceFacts
from engram.models.engine.transaction import Store, Tx
from engram.models.hub.outgoing_statements import forgotten_in_space
from engram.models.hub.spaces import Server, find_server, list_spaces, put_folder_state, read_folder_state
from engram.system.atomic import drop_leftovers, read_regular, write_atomic

logger = logging.getLogger(__name__)


class Folder(Transport):
    """Uses a folder as the hub, for one round or command. Not thread-safe."""

    def __init__(
        self,
        store: Store,
        server: Server,
        token: str,
        keys: Mapping[bytes, bytes],
        new_push_id: Callable[[int], bytes],
        *,
        limits: Limits | None = None,
        is_asked: bool = False,
    ) -> None:
        """Set up the transport without reading anything yet.

        Args:
            keys: the keys of the folder's space, by id.
            new_push_id: creates the id of a device's push.
            is_asked: True if a person is waiting, in which case git always fetches.
        """
        self.url, self.token = server.url, token
        self.sent_bytes = self.received_bytes = 0
        self.last_push = b""
        self._store, self._server, self._keys, self._new_push_id = store, server, keys, new_push_id
        self._key = list(keys.values())[-1]
        self._ns_id = space_id_of(self._key)
        self._folder = space_folder(folder_of(server.url), self._ns_id)
        self._until = time.monotonic() + (limits or LIMITS).round
        self._git: GitFolder | None = None
        self._is_asked = is_asked or server.failures > 0
        self._has_fetched = False
        self._state = FolderState()
        self._stored = ""
        #: Files not yet read (device, name, file), in the order in which they will be read.
        self._pending: list[tuple[str, str, StoredFile]] = []
        #: The file whose page is being stored.
        self._current: tuple[str, str, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, because nothing is kept open between requests."""

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    @property
    def device(self) -> int:
        return device_id_of(self.token)

    @property
    def _own_name(self) -> str:
        return f"{self.device:016x}"

    @property
    def _own_folder(self) -> Path:
        return self._folder / self._own_name

    # -- requests

    def hello(self, request: HelloRequest) -> HelloAnswer:
        """Scan the folder for new files, and for changes to the files that this machine wrote."""
        self._load()
        if self._git is not None:
            if self._is_asked or not (0 <= self._store.now_ms() - self._state.fetched_ms < FETCH_EVERY_MS):
                self._state.branch = self._git.begin(self._own_folder)
                self._state.fetched_ms = self._store.now_ms()
                self._has_fetched = True
            else:
                self._git.check_branch()
        self._check_there()
        space = list_spaces(self._store, self._server.id)[0]
        with using(self._folder):
            copy = self._look_at_own()
            self._look_at_others(space.cursor)
        self._note()
        self._save()
        server = find_server(self._store, self.url) or self._server
        push_id = copy or (server.last_push if self._state.top else b"")
        head = max(space.cursor + len(self._pending), 1 if self._state.tops or self._pending else 0)
        facts = SpaceFacts(
            ns_id=self._ns_id,
            name="private",
            kind="private",
            role="keeper",
            is_sealed=True,
            key_id=key_id_of(self._key),
            head=head,
            is_known=not self._state.is_healing,
        )
        return HelloAnswer(self._store.now_ms(), self.device, not copy, push_id, (facts,))

    def membership(self, what: str, value: Mapping[str, Any]) -> Membership:
        """Register this machine; anyone with the key may do that in a folder."""
        return Membership(MEMBER_ID, self._server.member_name, self.device, ())

    def pull(self, ns_id: int, after: int, limit: int, *, with_own: bool = False) -> Page:
        """Return the content of the next file, or a page without rows if none can be read."""
        if after < self._state.seq:
            self._look_at_others(after)
        while self._pending:
            device, name, file = self._pending.pop(0)
            segment = self._open(device, name, file)
            if segment is not None:
                self._current = (device, name, file.size)
                self._state.names[device] = segment.name[:60]
                self.received_bytes += file.size
                rows = tuple(dataclasses.replace(row, seq=after + 1) for row in segment.rows)
                return Page(rows, after + 1, 0, b"")
        self._save()
        return Page((), after, 0, b"")

    def took_page(self, tx: Tx, page: Page) -> None:
        """Record that a file was read, in the transaction that stores it."""
        assert self._current is not None
        device, name, size = self._current
        state = self._state
        state.read.setdefault(device, {})[name] = [page.upto, size]
        state.tops[device] = max(state.tops.get(device, 0), numbers_of(name)[1])
        state.seq = page.upto
        state.is_due = state.is_due or any(row.is_forgotten for row in page.rows)
        self._save(tx)

    def start_over(self, tx: Tx) -> None:
        """Start over: make this machine read everything again, and then write any missing data."""
        self._state.is_healing = False
        self._look_at_others(-1)
        self._save(tx)

    def push(self, push: Push) -> Answers:
        if push.rows:
            self._state.is_due = self._state.is_due or any(row.is_forgotten for row in push.rows)
            self._write(self._state.top + 1, self._state.top + 1, push.push_id, push.rows)
            self._state.top += 1
        return Answers((TAKEN,) * len(push.rows), 0, NO_PUSH)

    def wait(self, cursors: Mapping[int, int], seconds: float) -> bool:
        """Return immediately whether there is an unread file."""
        self._check_there()
        self._load()
        with using(self._folder):
            self._look_at_others(max(cursors.values(), default=0))
        strange = self._state.strange
        return any(
            strange.get(f"{device}/{name}", [0] * 4)[2:4] != [file.size, file.mtime_ns]
            for device, name, file in self._pending
        )

    def ask(self, what: str, value: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """List the machines, or remove one. A folder has no codes, teams or key changes."""
        if what != "devices" or not isinstance(value, Mapping):
            raise HubRefused("a folder has no teams, codes or key changes: only a hub server has them")
        self._check_there()
        self._load()
        if value.get("leave"):
            return {"erased": self._erase_if_alone()}
        with using(self._folder):
            if "remove" in value:
                self._remove(f"{int(value['remove']):016x}")
            seen = {name: newest_ms(files) for name, files, _ in self._devices()}
        own = self._own_name
        seen[own] = self._store.now_ms()  # like a hub, which has just been asked by it
        names = self._state.names | {own: self._server.member_name}
        devices = [
            {"device": int(name, 16), "name": names.get(name, name), "self": name == own, "seen_ms": seen_ms}
            for name, seen_ms in seen.items()
        ]
        return {"devices": devices}

    def finish(self, goes_on: Callable[[], bool]) -> None:
        """Merge small files, remove forgotten data, and let git commit and push the folder."""
        small = sum(size < SMALL_BYTES for size, _ in self._state.own.values())
        with using(self._folder):
            if (self._state.is_due or small > MAX_SMALL_FILES) and goes_on():
                self.compact()
        self._save()
        if self._git is not None and (self._has_fetched or self.sent_bytes):
            self._git.finish(self._own_folder)

    # -- what is in the folder

    def _check_there(self) -> None:
        """Raise HubUnreachable if the folder is empty or not mounted, so that nothing counts as deleted."""
        if not self._folder.is_dir():
            raise HubUnreachable(
                f"{folder_of(self.url)} is missing or no longer contains Engram's files: mount it, or run "
                f"`engram sync` with that folder to start over"
            )

    def _devices(self) -> Iterator[tuple[str, dict[str, StoredFile], list[str]]]:
        """Yield the name of each device folder, its segment files, and the names of its other files.

        This machine's folder is included.
        """
        for path in devices_in(self._folder):
            yield path.name, *list_files(path)

    def _look_at_own(self) -> bytes:
        """Compare this machine's folder with what this machine wrote there.

        Return the id of a push that a copy of this machine made; b"" if there is none.
        """
        state, device = self._state, self._own_name
        files, others = list_files(self._own_folder)
        for name in state.planned:
            # The process was killed between planning a file and recording it. A new file is accepted; one that was to
            # replace others is rewritten.
            if name in files and numbers_of(name)[0] > state.top and is_whole(files[name], name):
                state.own[name] = list(files[name][1:])
                state.top = numbers_of(name)[1]
            elif name in files and name not in state.own:
                self._retire(name, files.pop(name).path)
        state.planned = []
        missing = {name for name in state.own if name not in files}
        copy = b""
        for name, file in files.items():
            if name in state.own:
                if state.own[name] != [file.size, file.mtime_ns]:
                    if is_whole(file, name):
                        state.own[name] = [file.size, file.mtime_ns]
                    else:
                        missing.add(name)
            elif digest_of(name) in state.retired:
                self._retire(name, file.path)
            elif (segment := self._open(device, name, file)) is not None:
                copy = segment.push_id
        known = {*state.retired, *map(digest_of, state.own)}
        for name in others:
            stem = COPY.fullmatch(name)
            is_needed = stem and files[f"{stem[1]}.seg"].path.name == name and f"{stem[1]}.seg" in state.own
            if stem and stem[1][-32:] in known and not is_needed:
                # Conflict copies or restored files from a sync program.
                with contextlib.suppress(FileNotFoundError):
                    (self._own_folder / name).unlink()
        if self._is_overdue(device, ",".join(sorted(map(digest_of, missing)))):
            for name in missing:
                del state.own[name]
                if name in files:
                    self._retire(name, files[name].path)
            state.gaps.pop(device, None)
            state.is_healing = state.is_due = True
        return copy

    def _look_at_others(self, cursor: int) -> None:
        """Find unread files, and files that have gone missing since they were read.

        Files read beyond ``cursor`` are read again.
        """
        state = self._state
        if cursor < state.seq:
            state.seq = max(0, cursor)
            for read in state.read.values():
                for name in [name for name, (seq, _) in read.items() if seq > cursor]:
                    del read[name]
        self._pending = []
        present = set[str]()
        for device, files, _ in self._devices():
            if device == self._own_name:
                continue
            present.add(device)
            read = state.read.setdefault(device, {})
            cut = [name for name, (_, size) in read.items() if name in files and files[name].size != size]
            for name in [name for name in read if name not in files]:
                del read[name]
            gap = missing_numbers(files, cut, state.tops.get(device, 0))
            if self._is_overdue(device, gap):
                state.gaps[device][2] = gap
                state.is_healing = True
            for name, file in files.items():
                known = state.strange.get(f"{device}/{name}")
                # Files that are still being synced are tried each time, because not every file system reports changes.
                is_hopeless = known and known[1] != ON_ITS_WAY and known[2:] == [file.size, file.mtime_ns, PROTOCOL]
                if name not in read and not is_hopeless:
                    self._pending.append((device, name, file))
        for device in [device for device in state.tops if device not in present]:
            if self._is_overdue(device, "all"):
                state.is_healing = True
                for kept in (state.tops, state.read, state.gaps):
                    kept.pop(device, None)
        self._pending.sort(key=lambda item: item[1])

    def _is_overdue(self, device: str, gap: str) -> bool:
        """Record which files a device's folder lacks.

        Return True if they have been missing for a long time and have not been rewritten yet.
        """
        if not gap:
            self._state.gaps.pop(device, None)
            return False
        now_ms = self._store.now_ms()
        known = self._state.gaps.setdefault(device, ["", now_ms, ""])
        if known[0] != gap:
            known[0], known[1] = gap, now_ms
        if now_ms < known[1]:
            # The clock has been set back.
            known[1] = now_ms
        return bool(known[2] != gap) and now_ms - known[1] >= PATIENCE_MS * (1 + self.device % 4 / 2)

    def _open(self, device: str, name: str, file: StoredFile) -> Segment | None:
        """Return the content of a file; if it can't be read, record why and return None."""
        data = read_regular(file.path, MAX_SEGMENT_BYTES + 1) or b""
        path = f"{device}/{name}"
        try:
            if hashlib.blake2b(data, digest_size=16).hexdigest() != digest_of(name):
                raise BadRequest(ON_ITS_WAY)
            segment = open_segment(self._keys, self._ns_id, int(device, 16), numbers_of(name), data)
            self._state.strange.pop(path, None)
            return segment
        except WrongKey:
            reason = "it was sealed with a different key"
        except BadRequest as error:
            reason = str(error)
        since_ms = self._state.strange.get(path, [self._store.now_ms()])[0]
        self._state.strange[path] = [since_ms, reason, file.size, file.mtime_ns, PROTOCOL]
        return None

    def _note(self) -> None:
        """Record notes for the user: long unreadable or missing files, other spaces, and too many machines."""
        state = self._state
        present = {path for path in state.strange if os.path.lexists(self._folder / path)}
        state.strange = {path: state.strange[path] for path in sorted(present)}
        before_ms = self._store.now_ms() - PATIENCE_MS
        notes = [
            f"a file from {self._name(path[:16])} can't be read: {reason} (spaces/{self._ns_id:016x}/{path})"
            for path, (since_ms, reason, *_) in state.strange.items()
            if since_ms <= before_ms
        ]
        for device, (gap, since_ms, said) in state.gaps.items():
            if since_ms <= before_ms:
                follows = "this machine resends what it had read" if gap == said else "they will be sent again soon"
                gone = f"; if that machine is gone for good, run `engram hub devices --remove {int(device, 16)}`"
                notes.append(
                    f"files from {self._name(device)} are missing: {follows}{gone if device != self._own_name else ''}"
                )
        notes += notes_of_spaces(folder_of(self.url), self._folder.name, with_git=self._git is not None)
        if len(state.read) + 1 > MAX_DEVICES:
            notes.append(f"{len(state.read) + 1} machines use the folder; it is designed for at most {MAX_DEVICES}")
        state.notes = notes[:20]

    def _erase_if_alone(self) -> bool:
        """Delete this machine's space if it is empty, or if only this machine used it and another space replaces it.

        Return True if the space was deleted.
        """
        with using(self._folder):
            machines = machines_in(folder_of(self.url))
            has_files = machines.pop(self._folder.name)
            is_alone = {path.name for path in devices_in(self._folder)} <= {self._own_folder.name}
            if not is_alone or (has_files and not any(machines.values())):
                return False
            if self._git is not None:
                self._git.check_branch()
            shutil.rmtree(self._folder)
        if self._git is not None:
            self._git.finish(self._folder)
        return True

    def _name(self, device: str) -> str:
        return "this machine" if device == self._own_name else self._state.names.get(device) or device

    def _remove(self, device: str) -> None:
        """Delete a removed machine's folder once all of it has been read; this machine then sends that data."""
        if device == self._own_name:
            raise HubRefused("that is this machine; to leave the folder, run `engram hub leave`")
        found = {name: files for name, files, _ in self._devices()}
        if device not in found:
            raise HubRefused("there is no such machine in the folder; `engram hub devices` lists them", 404)
        if any(name not in self._state.read.get(device, {}) for name in found[device]):
            raise HubRefused("this machine has not yet read everything from that one: run `engram sync` first")
        self._state.is_healing = True
        for kept in (self._state.tops, self._state.read, self._state.gaps):
            kept.pop(device, None)
        self._save()
        for file in (self._folder / device).iterdir():
            file.unlink()
        (self._folder / device).rmdir()

    # -- writing

    def _write(self, first: int, last: int, push_id: bytes, rows: Sequence[Row]) -> str:
        """Write a file and return its name.

        The name is recorded first, because an unrecorded file is taken for a copy's.
        """
        segment = Segment(
            ns_id=self._ns_id,
            device=self.device,
            first=first,
            last=last,
            push_id=push_id,
            at_ms=self._store.now_ms(),
            name=self._server.member_name or platform.node(),
            rows=tuple(rows),
        )
        data = seal_segment(self._key, segment)
        name = f"{first:08}-{last:08}-{hashlib.blake2b(data, digest_size=16).hexdigest()}.seg"
        self._state.planned.append(name)
        self._save()
        with using(self._folder):
            self._own_folder.mkdir(exist_ok=True)
            path = self._own_folder / name
            write_atomic(path, data)
            facts = path.stat()
        self._state.own[name] = [facts.st_size, facts.st_mtime_ns]
        self._state.planned.remove(name)
        self.sent_bytes += len(data)
        return name

    def _retire(self, name: str, path: Path) -> None:
        """Delete one of this machine's files, and remember it, because a sync program may restore it."""
        digest = digest_of(name)
        if digest not in self._state.retired:
            self._state.retired = [*self._state.retired, digest][-MAX_RETIRED:]
        with contextlib.suppress(FileNotFoundError):
            path.unlink()

    def compact(self) -> int:
        """Rewrite this machine's files without forgotten and superseded rows, and merge small files.

        Return how many files were deleted.

        Rows are copied unchanged. To limit writes, a file is left alone if it contains no forgotten data and would keep
        most of its rows.
        """
        state, gone = self._state, forgotten_in_space(self._store, list_spaces(self._store, self._server.id)[0].id)
        if not self._own_folder.is_dir():
            return 0
        drop_leftovers(self._own_folder, 3_600)
        newest: dict[tuple[int, bytes], tuple[int, str]] = {}
        files, _ = list_files(self._own_folder)
        names = sorted(name for name in state.own if name in files)
        counts: dict[str, list[tuple[tuple[int, bytes], int, bool, int]]] = {}
        for name in names:
            segment = self._open(self._own_name, name, files[name])
            if segment is None:
                return 0
            counts[name] = [((r.author, r.memory_id), r.version, r.is_forgotten, len(r.body)) for r in segment.rows]
            for key, version, _, _ in counts[name]:
                if version >= newest.get(key, (0, ""))[0]:
                    newest[key] = (version, name)
        dead = {
            name: [
                newest[key] != (version, name) or (key in gone and not is_tombstone)
                for key, version, is_tombstone, _ in rows
            ]
            for name, rows in counts.items()
        }
        # A file that still contains forgotten words, or whose rows are mostly dead.
        must = {
            name
            for name, rows in counts.items()
            if any(key in gone and not is_tombstone for key, _, is_tombstone, _ in rows)
            or sum(dead[name]) * 3 > len(rows)
        }
        upto = 0
        for name in names:
            if numbers_of(name)[0] != upto + 1:
                must.add(name)
            upto = numbers_of(name)[1]
        live = {name: len(rows) - sum(dead[name]) for name, rows in counts.items()}
        is_crowded = sum(state.own[name][0] < SMALL_BYTES for name in names) > MAX_SMALL_FILES
        went, upto = 0, 0
        for group in neighbours(names, live, state.own):
            first, upto = upto + 1, numbers_of(group[-1])[1]
            if not (must & set(group) or (is_crowded and len(group) > 1)):
                continue
            rows: list[Row] = []
            for name in group:
                segment = self._open(self._own_name, name, files[name])
                if segment is None:
                    return went
                rows += [row for row, is_dead in zip(segment.rows, dead[name], strict=True) if not is_dead]
            self._write(first, upto, self._new_push_id(self.device), rows)
            for name in group:
                del state.own[name]
                state.retired = [*state.retired, digest_of(name)][-MAX_RETIRED:]
            self._save()
            for name in group:
                self._retire(name, files[name].path)
            went += len(group)
        state.is_due = False
        self._save()
        if went:
            logger.info("action=compact hub=%d files=%d", self._server.id, went)
        return went

    # -- state

    def _load(self) -> None:
        self._stored = read_folder_state(self._store, self._server.id)
        values = json.loads(self._stored or "{}")
        known = {item.name for item in dataclasses.fields(FolderState)}
        state = FolderState(**{name: value for name, value in values.items() if name in known})
        if state.device != self.device:
            # This machine became a new device, because a copy of it kept the old device's id. Files that this machine
            # wrote may therefore be missing.
            state = FolderState(device=self.device, is_healing=bool(values.get("device")), branch=state.branch)
        self._state = state
        self._git = GitFolder(folder_of(self.url), state.branch) if self.url.startswith(GIT) else None

    def _save(self, tx: Tx | None = None) -> None:
        now = json.dumps(dataclasses.asdict(self._state), separators=(",", ":"))
        if now == self._stored:
            return
        if tx is None:
            with self._store.transaction() as own:
                put_folder_state(own, self._server.id, now)
        else:
            put_folder_state(tx, self._server.id, now)
        self._stored = now
