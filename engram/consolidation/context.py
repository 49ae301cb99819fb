"""What the steps of a consolidation share: the run, its time, its report, and changes that mind others' changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engram.atomic import read_whole, write_atomic
from engram.enums import Actor, Importance, Source
from engram.models import episode_changes, episodes
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.models.transaction import Tx
from engram.models.unjoined import held_back_rows
from engram.models.watermarks import Watermark, latest_change, undone
from engram.settings import Settings

if TYPE_CHECKING:
    from engram.consolidation.reconcile import Reconciling
    from engram.consolidation.rewording import Rewording

#: Notes are read up to this many bytes, so that a user's larger file is left alone.
NOTE_BYTES = 20_000_000

#: ``(least cosine, row ids or None)`` → pairs ``(row id, row id, cosine)`` of similar memories, the most similar first:
#: those that hold one of the row ids, or all.
Similar = Callable[[float, Collection[int] | None], Iterator[tuple[int, int, float]]]


class TimeIsUp(Exception):
    """The time budget of this run has ended; what was done is committed, and the next run goes on with the same step."""


@dataclass(slots=True)
class Context:
    """What the steps share."""

    store: Store
    settings: Settings
    #: None where no run is logged: a dry run.
    run_id: int | None = None
    #: None where no vectors are at hand.
    similar: Similar | None = None
    duplicate_cosine: float = 0.92
    #: None where no language model is chosen.
    rewording: Rewording | None = None
    #: None where no language model is chosen.
    reconciling: Reconciling | None = None
    #: Row ids of memories that came or changed since the last complete run; None to look at all.
    changed: Collection[int] | None = None
    is_dry: bool = False
    #: Steady time at which the budget ends, in seconds; None for no end.
    until_seconds: float | None = None
    #: Lines for the report, a line a change.
    told: list[str] = field(default_factory=list)
    #: Note file → its text before this run, "" for none; for the undo.
    files_before: dict[str, str] = field(default_factory=dict)
    #: Note file → digest of what this run wrote, so that an undo sees whether somebody wrote there since.
    files_after: dict[str, str] = field(default_factory=dict)
    #: Commits the report so far.
    save: Callable[[], None] = lambda: None

    #: Lines that stood in the report when this run went on.
    told_before: int = 0
    #: The latest change that ``living`` knew of, and what it found.
    _living: tuple[int, list[Episode]] | None = None
    #: ``(action, id of the memory)`` of changes that the user took back; None until they are read.
    _undone: frozenset[tuple[str, str]] | None = None
    #: Where the memories were when the run began; up to there the next one need not look again.
    begins_at: Watermark | None = None

    def tell(self, text: str) -> None:
        """Add a line to the report."""
        self.told.append(text)

    @property
    def is_over(self) -> bool:
        """True once the time budget has ended."""
        return self.until_seconds is not None and self.store.clock.steady_seconds() > self.until_seconds

    def check_time(self) -> None:
        """Go on. Raises TimeIsUp where the budget has ended and something was done, so that every run gets further."""
        if len(self.told) > self.told_before and self.is_over:
            raise TimeIsUp

    def living(self) -> list[Episode]:
        """Memories that are neither archived nor superseded: the most trusted first, then the oldest.

        Read again only where one came or changed; uses that are counted meanwhile may be missing.
        """
        latest = latest_change(self.store)
        if self._living is None or self._living[0] != latest:
            self._living = (latest, living(self.store))
        return self._living[1]

    def is_undone(self, action: str, episode: Episode) -> bool:
        """True for a change that the user took back: it is not made again."""
        if self._undone is None:
            self._undone = undone(self.store)
        return (action, episode.episode_id) in self._undone

    def pairs(self, least_cosine: float) -> Iterator[tuple[int, int, float]]:
        """Similar memories, of which one came or changed; none where no vectors are at hand.

        What still waits for older turns is left to ``join_waiting``.
        """
        if self.similar is None:
            return
        held_back = held_back_rows(self.store)
        for pair in self.similar(least_cosine, self.changed):
            if pair[0] not in held_back and pair[1] not in held_back:
                yield pair

    def current(self, tx: Tx, *seen: Episode) -> list[Episode] | None:
        """The memories as they are now; None where one of them changed since it was read."""
        found = [episodes.find_episode(tx, one.episode_id) for one in seen]
        now = [one for one in found if one is not None]
        is_same = len(now) == len(seen) and all(a.revision == b.revision for a, b in zip(now, seen, strict=True))
        return now if is_same else None

    def change(self, episode: Episode, action: str, reason: str, *, actor: Actor, **changes: Any) -> bool:
        """Change one memory in a transaction of its own, if nobody else did meanwhile; tells nothing."""
        if self.is_dry:
            return True
        with self.store.transaction() as tx:
            now = self.current(tx, episode)
            if now is not None:
                episode_changes.change_episode(tx, now[0], action, reason, actor=actor, run_id=self.run_id, **changes)
        return now is not None

    # -- notes

    def read_note(self, name: str) -> str | None:
        """Return a note of the memory folder, "" if there is none.

        None if it must not be rewritten: too large, a link, not readable, or not UTF-8. Read it, change it and write
        it with ``notes_lock`` held.
        """
        data = read_whole(self.settings.places.notes / name, NOTE_BYTES)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def will_write(self, name: str, before: str) -> None:
        """Remember, and commit, what a note said before this run."""
        self.files_before.setdefault(name, before)
        self.save()

    def write_note(self, name: str, text: str) -> None:
        """Write a note; ``will_write`` comes first."""
        write_atomic(self.settings.places.notes / name, text.encode())
        self.files_after[name] = digest_of(text)


def living(store: Store) -> list[Episode]:
    """Memories that are neither archived nor superseded: the most trusted first, then the oldest."""
    found = [e for e in episodes.all_episodes(store) if e.is_current]
    return sorted(
        found,
        key=lambda e: (
            not e.is_pinned,
            e.source != Source.MANUAL,
            e.importance != Importance.HIGH,
            e.created_at_ms,
            e.id,
        ),
    )


def digest_of(text: str) -> str:
    """Tells one text of a note from another."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
