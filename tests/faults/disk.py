"""A file system that fails at the n-th operation, below a whole life of some lines; run by test_disk.py.

Usage: python disk.py FOLDER FAULT EVERY. FAULT is kill, error or full; EVERY n-th operation is tried. A life is: open
memory.db, read a transcript that grows, make memories, forget one, move the log into the file. It runs once without a
fault, to count the operations and to see what must be there at the end; then with one fault at each operation. After
a fault the same life goes on, on the same open Store (a killed one: in another process, with the real drivers), and
must end as the one without a fault. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
from playhouse.apsw_ext import APSWDatabase

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Kind, Status
from engram.errors import EngramError
from engram.extraction.candidate import Candidate
from engram.extraction.extracting import extract_session
from engram.forgetting.forget import forget_memory
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.redaction import redact
from engram.settings import Settings

SESSION = "11111111-2222-3333-4444-555555555555"
VFS = "failing"
TURNS = 4
#: Tries of one step of a life until it is given up.
PATIENCE = 5


class Disk(apsw.VFS):  # type: ignore[misc]
    """Counts reads, writes, syncs and truncations of memory.db and its log; fails at one of them."""

    def __init__(self) -> None:
        self.count = 0
        self.fail_at = 0
        self.fault = ""
        self.hits: Counter[str] = Counter()
        super().__init__(VFS, "")

    def arm(self, fault: str, fail_at: int) -> None:
        """Fail once, at the ``fail_at``-th operation from now; 0: never."""
        self.count, self.fail_at, self.fault = 0, fail_at, fault

    def xOpen(self, name: Any, flags: Any) -> Any:
        """SQLite opens a file."""
        return DiskFile(self, name, flags)

    def meet(self, operation: str) -> None:
        """SQLite does something to a file."""
        if operation == "read" and self.fault != "error":
            return
        self.count += 1
        if self.count != self.fail_at:
            return
        self.hits[operation] += 1
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "full":
            raise apsw.FullError("no space")
        raise apsw.IOError("the disk failed")


class DiskFile(apsw.VFSFile):  # type: ignore[misc]
    """A file on the failing disk."""

    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:
        self.disk = disk
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> Any:
        """Read."""
        self.disk.meet("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:
        """Write; a failing write leaves half of the data."""
        if self.disk.count + 1 == self.disk.fail_at:
            super().xWrite(bytes(data)[: len(data) // 2], offset)
        self.disk.meet("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        """Sync."""
        self.disk.meet("sync")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        """Truncate."""
        self.disk.meet("truncate")
        super().xTruncate(size)


class Rows:
    """A cursor of apsw with the row count and the description that other drivers have, also after the last row."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.description: tuple[Any, ...] = ()

    def execute(self, *arguments: Any) -> Rows:
        """Run a statement; apsw tells its columns only before it has ended."""
        self._cursor.exec_trace = self._describe
        try:
            self._cursor.execute(*arguments)
        finally:
            self._cursor.exec_trace = None  # a cycle would keep the statement open
        return self

    def _describe(self, cursor: Any, _sql: str, _bindings: Any) -> bool:
        self.description = cursor.getdescription()
        return True

    def __iter__(self) -> Any:
        return iter(self._cursor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    @property
    def rowcount(self) -> int:
        """Rows that the statement changed."""
        return int(self._cursor.connection.changes())


class FailingDatabase(APSWDatabase):  # type: ignore[misc]
    """peewee on apsw on the failing disk."""

    def cursor(self, *arguments: Any, **named: Any) -> Any:
        """A cursor that can be described."""
        return Rows(super().cursor(*arguments, **named))

    def last_insert_id(self, cursor: Any, query_type: Any = None) -> Any:
        """Id of the row that was inserted."""
        return self.connection().last_insert_rowid()


class FailingStore(Store):
    """A Store on the failing disk, with the pragmas of the real ones."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, driver="sqlite3")
        pragmas = [(name, value) for name, value in self._database._pragmas]
        self._database = FailingDatabase(str(path), pragmas=pragmas, timeout=5, vfs=VFS)
        self._errors = (*self._errors, apsw.Error)


class TurnExtractor:
    """One memory a turn."""

    name = "turn-1"

    def propose(self, turns: Any, context: Any) -> list[Candidate]:
        return [
            Candidate(
                Kind.TURN,
                turn.prompt,
                turn.reply or "-",
                tuple(s.uuid for s in turn.said),
                (turn.key,),
                status=Status.ACTIVE,
                confidence=0.9,
                quality=0.9,
            )
            for turn in turns
        ]


class Life:
    """The same lines in one folder, again and again."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(
            home=folder / "home", claude_folder=folder / "claude", embedding_model="hashed", hourly_memories=1000
        )
        self.home = self.settings.places.prepare()
        self.transcript = self.settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
        self.transcript.parent.mkdir(parents=True)

    def grow(self, number: int) -> None:
        """One more turn in the transcript; a turn that is there is not written again."""
        lines = self.transcript.read_text().count("\n") if self.transcript.exists() else 0
        if lines >= 2 * number:
            return
        with self.transcript.open("a", encoding="utf-8") as file:
            for role, text in (
                ("user", f"Explain importer {number}"),
                ("assistant", f"Importer {number} reads. " * 20),
            ):
                content: Any = text if role == "user" else [{"type": "text", "text": text}]
                line = {
                    "type": role,
                    "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{role}{number}")),
                    "sessionId": SESSION,
                    "cwd": "/work/demo",
                    "timestamp": f"2026-05-01T10:0{number}:00.000Z",
                    "message": {"role": role, "content": content, "id": f"m{number}"},
                }
                file.write(json.dumps(line) + "\n")

    def steps(self, store: Store) -> list[Any]:
        """What happens, in order; every step may be done again."""
        found: list[Any] = [lambda: store.open()]
        for number in range(1, TURNS + 1):
            found.append(lambda number=number: self.read(store, number))
            found.append(lambda: self.extract(store))
        return [*found, lambda: self.forget(store), lambda: store.checkpoint("TRUNCATE")]

    def read(self, store: Store, number: int) -> None:
        self.grow(number)
        ingest_path(store, self.transcript, settings=self.settings, redact=redact, close=True)

    def extract(self, store: Store) -> None:
        extract_session(store, SESSION, extractor=TurnExtractor(), embedder=HashedEmbedder(), settings=self.settings)

    def forget(self, store: Store) -> None:
        for one in all_memories(store):
            if one.summary == "Explain importer 1":
                forget_memory(store, self.home, one.episode_id, also_source=True, actor=Actor.USER)

    def live(self, store: Store) -> int:
        """Do every step until it works; returns how many failed."""
        failed = 0
        for step in self.steps(store):
            for attempt in range(PATIENCE):
                try:
                    step()
                    break
                except EngramError:
                    failed += 1
                    if attempt == PATIENCE - 1:
                        raise
        return failed


def content(store: Store) -> Any:
    """What must be the same however often something failed."""
    return [
        store.rows("SELECT key, is_closed, message_count FROM turn ORDER BY key"),
        store.rows("SELECT text FROM said ORDER BY text"),
        store.rows("SELECT summary, status FROM episode ORDER BY summary"),
        store.rows("SELECT count(*) FROM vector WHERE owner = 'e'"),
        store.rows("SELECT message_count, extracted_messages FROM session"),
        store.rows("SELECT kind, count(*) FROM tombstone GROUP BY kind ORDER BY kind"),
        store.rows("SELECT json_remove(cursor, '$.inode', '$.changed_at_ns'), lines_read FROM transcript"),
        store.rows("SELECT summary FROM episode_fts WHERE episode_fts MATCH 'importer' ORDER BY rowid"),
    ]


class Trial:
    """One life after another in fresh folders."""

    def __init__(self, folder: Path, fault: str) -> None:
        self.disk = Disk()
        self.folder = folder
        self.fault = fault
        self.problems: list[str] = []
        self.killed = self.failed = 0

    def run(self, every: int) -> dict[str, Any]:
        life, store = self.fresh()
        self.disk.arm(self.fault, 0)
        life.live(store)
        operations, wanted = self.disk.count, content(store)
        store.close()
        tried = range(1, operations + 1, every)
        for number in tried:
            if self.fault == "kill":
                self.kill_at(number, wanted)
            else:
                self.fail_at(number, wanted)
        return {
            "operations": operations,
            "tried": len(tried),
            "killed": self.killed,
            "failed_steps": self.failed,
            "hits": dict(self.disk.hits),
            "problems": self.problems,
        }

    def fresh(self) -> tuple[Life, FailingStore]:
        shutil.rmtree(self.folder / "life", ignore_errors=True)
        life = Life(self.folder / "life")
        return life, FailingStore(life.home.memory_db)

    def fail_at(self, number: int, wanted: Any) -> None:
        """The same Store continues after the fault."""
        life, store = self.fresh()
        self.disk.arm(self.fault, number)
        try:
            self.failed += life.live(store)
            self.check(number, store, wanted)
        except EngramError as error:
            self.problems.append(f"{number}: {error}")
        finally:
            store.close()

    def kill_at(self, number: int, wanted: Any) -> None:
        """Another process finds what a killed one left, and continues, with either driver."""
        life, store = self.fresh()
        child = os.fork()
        if not child:
            self.disk.arm("kill", number)
            life.live(store)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        self.killed += os.WIFSIGNALED(status)
        try:
            with open_store(life.home.memory_db, driver=("cysqlite", "sqlite3")[number % 2]) as real:
                if damage := real.find_damage():
                    self.problems.append(f"{number}: right after the kill: {damage}")
                life.live(real)
                self.check(number, real, wanted)
        except EngramError as error:
            self.problems.append(f"{number}: {error}")

    def check(self, number: int, store: Store, wanted: Any) -> None:
        if damage := store.find_damage():
            self.problems.append(f"{number}: {damage}")
        if (found := content(store)) != wanted:
            self.problems.append(f"{number}: {found} instead of {wanted}")


if __name__ == "__main__":
    print(json.dumps(Trial(Path(sys.argv[1]), sys.argv[2]).run(int(sys.argv[3]))))
