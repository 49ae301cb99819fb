"""Forget a memory: delete it everywhere, so that nothing brings its text back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from engram.enums import Actor
from engram.errors import NotFound
from engram.forgetting.forget_files import clean_copies, copies_of_memory, foreign_files_with
from engram.forgetting.forget_plan import ForgetPlan, ForgottenFiles, NeededEntry, plan_forget
from engram.models.engine.transaction import Store, Tx
from engram.models.forgetting import forget_memories
from engram.models.hub.incoming_statements import stand_alone
from engram.models.memories.memory_records import Memory
from engram.models.projects.notes import forget_standing_lines
from engram.models.rescue.backup import holding_backups
from engram.notes.daily_log import log_session, move_saved_notes, notes_lock
from engram.paths import Home
from engram.system.atomic import drop_leftovers
from engram.trust.display import number_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ForgetReport:
    #: What was deleted, and what was kept.
    plan: ForgetPlan
    #: Files in the memory folder that were removed or rewritten.
    files: tuple[str, ...]
    #: Number of backups and set-aside databases that were cleaned.
    backups: int
    #: Number of backups and set-aside databases that were deleted because they could not be changed.
    dropped_backups: int = 0
    #: Number of backups and set-aside databases that were searched.
    searched_backups: int = 0
    #: Names of other programs' databases in the memory folder that still contain the forgotten words.
    foreign: tuple[str, ...] = ()
    #: Why unused parts of memory.db may still contain the forgotten words; empty if they do not.
    not_wiped: str = ""

    def describe(self, may_show: Callable[[Memory], bool] | None = None) -> str:
        """Return a few lines of text about what was deleted and what was kept. The arguments are those of ``told``."""
        account, *remarks = self.told(may_show)
        return "\n".join([f"“{self.plan.title}”: {account}.", *remarks])

    def told(self, may_show: Callable[[Memory], bool] | None = None) -> list[str]:
        """Return how much was deleted, without any of its words, and a line for each thing that was kept or changed.

        Args:
            may_show: returns False for a memory with text and a session that must not be shown; None if everything may
                be shown.
        """
        lines = [self.plan.account(files=len(self.files), backups=self.searched_backups, is_done=True)]
        if self.dropped_backups:
            copies = number_of(self.dropped_backups, "damaged copy", "damaged copies")
            lines.append(f"Deleted {copies} of memory.db, because nothing could be removed from a damaged file.")
        lines += [_needed_line(entry, may_show) for entry in self.plan.needed]
        lines += [
            f"{memory.episode_id} is current again, because the memory that replaced it was deleted."
            for memory in self.plan.restored
        ]
        lines += [
            f"{memory.episode_id} is kept with its own summary, but no longer rests on this quotation; "
            "forget it too if it contains the same information."
            for memory in self.plan.staying
            if may_show is None or may_show(memory)
        ]
        lines += [foreign_line(name) for name in self.foreign]
        if self.not_wiped:
            lines.append(unwiped_line(self.not_wiped))
        return lines


def foreign_line(name: str) -> str:
    """Return a warning that another program's database still contains forgotten words."""
    return (
        f"Its words are still in {name}, another program's database, which Engram never changes; "
        "delete that file if you can."
    )


def unwiped_line(reason: str) -> str:
    """Return a warning that deleted words could not yet be removed from unused parts of memory.db."""
    return (
        f"Unused parts of memory.db may still contain its words, although nothing shows them: {reason.rstrip('.')}. "
        "The next consolidation removes them; `engram consolidate` does so now."
    )


def _needed_line(needed: NeededEntry, may_show: Callable[[Memory], bool] | None) -> str:
    shown = [
        f"“{memory.summary[:120]}” ({memory.episode_id})"
        for memory in needed.needed_by
        if may_show is None or may_show(memory)
    ]
    needers = "; ".join(shown if len(shown) == len(needed.needed_by) else [*shown, "a memory of another project"])
    where = f" in {needed.said_in}" if may_show is None and needed.said_in else ""
    return f"A message{where} is kept, because another memory rests on it: {needers}."


def forget_memory(
    store: Store, places: Home, episode_id: str, *, actor: Actor, also_source: bool = False
) -> ForgetReport:
    """Delete a memory and the words that no other memory rests on, everywhere in the memory folder.

    For a quotation, delete the entire message, with the memories that rest only on it or repeat it. For a session,
    delete its turns and its title, with every memory that rests on them or was saved in it.

    This covers rows, text indexes, vectors, history, runs, recollections, notes, exports, backups and set-aside
    databases. Tombstones keep the text from coming back through reading, extraction, import or restore. The transcript
    belongs to the agent and is kept. Files are cleaned before the database, so that this function can be called again
    if it is interrupted.

    Args:
        episode_id: the memory or quotation, or the agent's id of the session.
        actor: recorded in the history of memories that change.
        also_source: also delete the entire turns that it rests on, with every memory that rests on these turns.

    Raises:
        NotFound: there is nothing with this id.
        StoreError: the database can't be written; try again.
    """
    plan = plan_forget(store, episode_id, also_source=also_source)
    files = ForgottenFiles.of(store, plan)

    def delete(tx: Tx) -> None:
        nonlocal plan
        plan = plan_forget(store, episode_id, also_source=also_source)
        forget_memories.delete_forgotten(tx, plan.forgotten(store), actor=actor)

    cleaned = _delete_everywhere(store, places, [files], delete, actor=actor)
    logger.info(
        "action=forget memories=%d turns=%d entries=%d files=%d",
        len(plan.memories),
        len(plan.turn_ids),
        len(plan.erased),
        len(cleaned.files) + len(cleaned.notes),
    )
    return ForgetReport(
        plan=plan,
        files=(*cleaned.files, *(path.name for path in cleaned.notes)),
        backups=cleaned.backups,
        dropped_backups=cleaned.dropped_backups,
        searched_backups=cleaned.searched_backups,
        foreign=tuple(foreign_files_with(places, store.driver, files.beginnings)),
        not_wiped=cleaned.not_wiped,
    )


# -- Forget several memories together, as another machine requested: first in files, then in one transaction.


def forget_together(
    store: Store, places: Home, episode_ids: Sequence[str], change_too: Callable[[Tx], None], *, actor: Actor
) -> int:
    """Delete memories everywhere in the memory folder, as ``forget_memory`` does; return how many.

    Memories that were merged with them on this machine are kept, because they were not forgotten.

    Args:
        episode_ids: the memories; unknown ids are skipped.
        change_too: makes further changes in the same transaction.

    Raises:
        StoreError: the database can't be written. Nothing was deleted from it, and the call can be repeated.
    """
    with store.transaction() as tx:
        stand_alone(tx, episode_ids)
    plans = _plans(store, episode_ids)
    if not plans:
        with store.transaction() as tx:
            change_too(tx)
        return 0
    every = [ForgottenFiles.of(store, plan) for plan in plans]

    def delete(tx: Tx) -> None:
        for episode_id in episode_ids:
            for plan in _plans(store, [episode_id]):
                forget_memories.delete_forgotten(tx, plan.forgotten(store), actor=actor)
        change_too(tx)

    cleaned = _delete_everywhere(store, places, every, delete, actor=actor)
    gone = {episode_id for files in every for episode_id in files.forgotten.episode_ids}
    logger.info("action=forget_together memories=%d notes=%d", len(gone), len(cleaned.notes))
    return len(gone)


class _Cleaned(NamedTuple):
    """The names of changed files, the changed notes, and how many backups were searched, cleaned and deleted.

    Last, why memory.db still has traces of what was deleted, if it has.
    """

    files: list[str]
    notes: list[Path]
    searched_backups: int
    backups: int
    dropped_backups: int
    not_wiped: str


def _delete_everywhere(
    store: Store, places: Home, every: Sequence[ForgottenFiles], delete: Callable[[Tx], None], *, actor: Actor
) -> _Cleaned:
    """Clean backups and files, and then the database in one transaction with ``delete``."""

    def is_kept(line: str) -> bool:
        return all(files.is_kept(line) for files in every)

    def forget_in_copy(tx: Tx) -> int:
        return sum(forget_memories.forget_in_copy(tx, files.forgotten, is_kept, actor=actor) for files in every)

    with holding_backups(places.backups):
        with notes_lock(places):
            drop_leftovers(places.root, 0)
        move_saved_notes(places)
        searched = len(copies_of_memory(places, store.driver))
        backups, dropped = clean_copies(places, store.driver, forget_in_copy)
        changed = [files.clean(places) for files in every]
        with store.transaction() as tx:
            delete(tx)
            forget_memories.clean_runs(tx, is_kept)
            forget_memories.clean_reasons(tx, is_kept)
            forget_standing_lines(tx, is_kept)
            forget_memories.drop_notes(tx, [str(path) for _, paths in changed for path in paths])
        # Until then, other processes could still show the memory, or write it in a note.
        late = [files.clean(places) for files in every]
        with store.transaction() as tx:
            forget_memories.drop_notes(tx, [str(path) for _, paths in late for path in paths])
        names, notes = (list(dict.fromkeys(chain(*lists))) for lists in zip(*changed, *late, strict=True))
    for session_id in dict.fromkeys(session for files in every for session in files.sessions):
        log_session(store, places, session_id)
    return _Cleaned(names, notes, searched, backups, dropped, forget_memories.finish_wipe(store))


def _plans(store: Store, episode_ids: Sequence[str]) -> list[ForgetPlan]:
    plans = []
    for episode_id in episode_ids:
        try:
            plans.append(plan_forget(store, episode_id))
        except NotFound:
            continue
    return plans
