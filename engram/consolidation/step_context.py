"""The context shared by all steps of a consolidation: its run, time budget and report, and checked changes."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engram.embedding.embedder import DUPLICATE_COSINE
from engram.enums import Actor, Status
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.memory_records import Memory
from engram.models.memories.watermarks import Watermark, held_back_rows, undone
from engram.models.search.memory_lists import current_row_ids
from engram.settings import Settings
from engram.system import process_limits
from engram.system.atomic import read_whole, write_atomic

if TYPE_CHECKING:
    from engram.extraction.model.reconcile import Reconciler
    from engram.extraction.model.second_chance import SecondChance

#: Maximum size of a note for it to be read, in bytes; a larger file is never rewritten.
MAX_NOTE_BYTES = 20_000_000
#: Number of memories read at a time.
_BATCH_ROWS = 500
#: Number of pairs of memories read at a time.
_BATCH_PAIRS = 64

#: ``(minimum cosine, row ids or None)`` → pairs ``(row id, row id, cosine)`` of similar memories that contain one of
#: the row ids (None for all pairs), most similar first.
Similar = Callable[[float, Collection[int] | None], Iterator[tuple[int, int, float]]]


class TimeIsUp(Exception):
    """The run has used up its time budget. Its changes are committed, and the next run resumes at the same step."""


@dataclass(slots=True)
class Context:
    store: Store
    settings: Settings
    #: None for a dry run, which is not logged.
    run_id: int | None = None
    #: None without vectors.
    similar: Similar | None = None
    duplicate_cosine: float = DUPLICATE_COSINE
    #: None without a language model.
    distilling: SecondChance | None = None
    #: None without a language model.
    reconciling: Reconciler | None = None
    #: Row ids of new and changed memories since the last complete run; None for all memories.
    changed: frozenset[int] | None = None
    is_dry: bool = False
    #: True if a person started the run.
    is_forced: bool = False
    #: Monotonic time at which the time budget is used up, in seconds; None if there is no limit.
    until_seconds: float | None = None
    #: Lines of the report, one for each change.
    lines: list[str] = field(default_factory=list)
    #: Note file → its text before this run, for an undo; "" if there was no such file.
    files_before: dict[str, str] = field(default_factory=dict)
    #: Note file → digest of the text that this run wrote, so that an undo can recognise later changes.
    files_after: dict[str, str] = field(default_factory=dict)
    #: Stores the report so far.
    save: Callable[[], None] = lambda: None

    #: Number of report lines when this run was resumed.
    lines_before: int = 0
    #: ``(action, id of the memory)`` for each change that the user undid; None until first needed.
    _undone: frozenset[tuple[str, str]] | None = None
    #: The watermark at the start of this run, where the next run continues.
    begins_at: Watermark | None = None

    def add_line(self, text: str) -> None:
        self.lines.append(text)

    @property
    def is_over(self) -> bool:
        return self.until_seconds is not None and self.store.clock.steady_seconds() > self.until_seconds

    def check_time(self) -> None:
        """Let waiting requests go first; raise TimeIsUp if the time budget is used up.

        The error is raised only after the run has changed something, so that every run makes progress.
        """
        process_limits.pause()
        if len(self.lines) > self.lines_before and self.is_over:
            raise TimeIsUp

    def current_memories(self) -> Iterator[Memory]:
        """Yield the current memories, most trusted first, then oldest first.

        They are read in batches, because they may not all fit into memory. Memories archived in the meantime are left
        out.
        """
        return self.read_current(current_row_ids(self.store))

    def read_current(self, row_ids: Sequence[int]) -> Iterator[Memory]:
        """Yield the memories in ``row_ids`` that are still current, in the same order, reading them in batches."""
        for start in range(0, len(row_ids), _BATCH_ROWS):
            batch = row_ids[start : start + _BATCH_ROWS]
            found = memory_records.memories_by_row(self.store, batch)
            yield from (found[row_id] for row_id in batch if row_id in found and found[row_id].is_current)

    def is_undone(self, action: str, memory: Memory) -> bool:
        """Return True for a change that the user undid and that therefore must not be repeated."""
        if self._undone is None:
            self._undone = undone(self.store)
        return (action, memory.episode_id) in self._undone

    def pairs(self, min_cosine: float) -> Iterator[tuple[int, int, float]]:
        """Yield pairs of similar memories that include a new or changed one; none without vectors.

        Memories that are waiting for older turns are left to ``join_waiting``.
        """
        if self.similar is None:
            return
        held_back = held_back_rows(self.store)
        for pair in self.similar(min_cosine, self.changed):
            if pair[0] not in held_back and pair[1] not in held_back:
                yield pair

    def read_pairs(
        self, pairs: Iterable[tuple[int, int, float]], gone: Container[int]
    ) -> Iterator[tuple[Memory, Memory, float]]:
        """Yield the memories of pairs whose rows aren't both in ``gone``, with their cosine; leave out missing ones.

        Pairs are read in batches. Once this run has changed a memory, the remaining pairs of the batch are read again,
        one at a time.
        """
        rest = iter(pairs)
        while batch := list(itertools.islice(rest, _BATCH_PAIRS)):
            read = memory_records.memories_by_row
            found = read(self.store, list({row_id for pair in batch for row_id in pair[:2]}))
            lines = len(self.lines)
            for first_id, second_id, cosine in batch:
                self.check_time()
                if first_id in gone and second_id in gone:
                    continue
                now = found if lines == len(self.lines) else read(self.store, [first_id, second_id])
                if first_id in now and second_id in now:
                    yield now[first_id], now[second_id], cosine

    def unchanged(self, tx: Reader, *seen: Memory) -> list[Memory] | None:
        """Return the memories as stored; None if one of them has changed since it was read."""
        rows = [memory_records.find_memory(tx, memory.episode_id) for memory in seen]
        now = [row for row in rows if row is not None]
        is_same = len(now) == len(seen) and all(a.revision == b.revision for a, b in zip(now, seen, strict=True))
        return now if is_same else None

    def change(self, memory: Memory, action: str, reason: str, *, actor: Actor, **changes: Any) -> bool:
        """Change a memory in a transaction, without a report line; return False if it has changed since it was read."""
        if self.is_dry:
            return True
        with self.store.transaction() as tx:
            now = self.unchanged(tx, memory)
            if now is not None:
                memory_changes.change_memory(tx, now[0], action, reason, actor=actor, run_id=self.run_id, **changes)
        return now is not None

    def archive_into(self, tx: Tx, archived: Memory, kept: Memory, reason: str, actor: Actor) -> None:
        """Archive a memory that ``kept`` replaces; the id of ``kept`` is appended to the reason."""
        memory_changes.change_memory(
            tx,
            archived,
            "archive",
            f"{reason} {kept.episode_id}",
            run_id=self.run_id,
            status=Status.ARCHIVED,
            superseded_by=kept.episode_id,
            actor=actor,
        )

    def read_note(self, name: str) -> str | None:
        """Return a note in the memory folder; "" if there is none.

        Return None if it must not be rewritten, because it is too large, a link, unreadable or not UTF-8. Hold
        ``notes_lock`` while you read, change and write it.
        """
        data = read_whole(self.settings.places.notes / name, MAX_NOTE_BYTES)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def will_write(self, name: str, before: str) -> None:
        """Record a note's text before this run, for an undo. Call this before ``write_note``."""
        self.files_before.setdefault(name, before)
        self.save()

    def write_note(self, name: str, text: str) -> None:
        write_atomic(self.settings.places.notes / name, text.encode())
        self.files_after[name] = digest_of(text)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
