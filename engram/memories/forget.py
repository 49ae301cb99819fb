"""Forget a memory: delete it everywhere, so that nothing brings its text back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from engram.atomic import drop_leftovers
from engram.enums import Actor
from engram.memories.forget_files import clean_copies, foreign_files_with
from engram.memories.forget_plan import NeededEntry, plan_forget
from engram.memories.forget_preview import ForgottenFiles
from engram.models import forgetting
from engram.models.backup import holding_backups
from engram.models.episodes import Episode
from engram.models.standing_files import forget_standing_lines
from engram.models.store import Store
from engram.notes.daily import log_session, move_saved_notes
from engram.notes.day_files import notes_lock
from engram.paths import Home

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What was forgotten, and what stays."""

    #: Ids of the memories, the one that was asked for first; none where a quotation was asked for and no memory went.
    episode_ids: tuple[str, ...]
    #: Summary of the memory that was asked for, or the beginning of the quotation.
    summary: str
    #: Number of turns that were deleted whole.
    turns: int
    #: Number of entries whose words were deleted while their turns stay.
    entries: int
    #: Entries that stay, with the memories that need them.
    needed: tuple[NeededEntry, ...]
    #: Ids of memories that are current again.
    restored: tuple[str, ...]
    #: Files in the memory folder that were removed or rewritten.
    files: tuple[str, ...]
    #: Number of backups and set-aside databases that were cleaned.
    backups: int
    #: Number of those that could not be changed and were deleted.
    dropped_backups: int = 0
    #: Names of other programs' databases in the memory folder that still contain its words.
    foreign: tuple[str, ...] = ()
    #: Memories that stay although they rest on the words of the quotation too.
    staying: tuple[Episode, ...] = ()

    def describe(self, may_tell: Callable[[Episode], bool] = lambda _: True) -> str:
        """Return a few lines for a person or a model: what was deleted and what stays.

        A memory for which ``may_tell`` returns False is mentioned without its text.
        """
        ids = ", ".join(self.episode_ids)
        gone = [f"{_plural(len(self.episode_ids), 'memory', 'memories')} ({ids})"] if ids else []
        gone += [_plural(self.turns, "turn")] if self.turns else []
        gone += [f"the words of {_plural(self.entries, 'entry', 'entries')}"] if self.entries else []
        lines = [
            f"“{self.summary}”: {', '.join(gone)}; {_plural(len(self.files), 'file')} changed, "
            f"{_plural(self.backups + self.dropped_backups, 'backup')} cleaned."
        ]
        lines += [_needed_line(entry, may_tell) for entry in self.needed]
        lines += [
            f"Current again, since the memory that replaced it is gone: {episode_id}." for episode_id in self.restored
        ]
        lines += [
            f"{memory.episode_id} stays with a summary of its own, and rests on it no longer; forget it too if it says "
            "what has to go."
            for memory in self.staying
            if may_tell(memory)
        ]
        lines += [foreign_line(name) for name in self.foreign]
        return "\n".join(lines)


def foreign_line(name: str) -> str:
    """Say that another program's database still contains forgotten words, and what to do."""
    return f"Its words are still in {name}, another program's database, which is never changed; delete it if you can."


def _needed_line(needed: NeededEntry, may_tell: Callable[[Episode], bool]) -> str:
    told = [f"{memory.episode_id} “{memory.summary[:120]}”" for memory in needed.needed_by if may_tell(memory)]
    needers = "; ".join(told if len(told) == len(needed.needed_by) else [*told, "a memory of another project"])
    return f"Entry {needed.entry} stays, needed by {needers}."


def forget_episode(
    store: Store, places: Home, episode_id: str, *, actor: Actor, also_source: bool = False
) -> ForgetReport:
    """Delete a memory and the words that it alone rests on, everywhere in the memory folder.

    Of a quotation, the words of the whole message that says it go, and the memories that were made of them alone or
    repeat them.

    It is deleted from rows, text indexes, vectors, history, runs, recollections, notes, exports, backups and set-aside
    databases. Tombstones keep it from coming back by another reading, extraction, import or restore. The transcript
    belongs to Claude Code and stays. Files are cleaned before the database, so that an interrupted forget can be
    repeated.

    Args:
        store: the open memory.
        places: the memory folder.
        episode_id: the memory or quotation.
        actor: who forgets it; the history of memories that change with it says so.
        also_source: delete the whole turns that it rests on, with every memory that rests on them.

    Raises:
        NotFound: there is no such memory or quotation.
        StoreError: the database cannot be written; try again.
    """
    plan = plan_forget(store, episode_id, also_source=also_source)
    files = ForgottenFiles.of(store, plan)
    with holding_backups(places.backups):
        with notes_lock(places):
            drop_leftovers(places.root, 0)
        move_saved_notes(places)
        backups, dropped = clean_copies(
            places,
            store.driver,
            lambda tx: forgetting.forget_in_copy(tx, files.forgotten, files.is_kept, actor=actor),
        )
        cleaned, notes = files.clean(places)
        with store.transaction() as tx:
            plan = plan_forget(store, episode_id, also_source=also_source)
            forgetting.delete_forgotten(tx, plan.forgotten(store), actor=actor)
            forgetting.clean_runs(tx, files.is_kept)
            forgetting.clean_reasons(tx, files.is_kept)
            forget_standing_lines(tx, files.is_kept)
            forgetting.drop_notes(tx, [str(path) for path in notes])
    for session_id in files.sessions:
        log_session(store, places, session_id)
    forgetting.wipe_free_space(store)
    logger.info(
        "action=forget episodes=%d turns=%d entries=%d files=%d",
        len(plan.memories),
        len(plan.turn_ids),
        len(plan.erased),
        len(cleaned) + len(notes),
    )
    return ForgetReport(
        episode_ids=tuple(episode.episode_id for episode in plan.memories),
        summary=plan.title,
        turns=len(plan.turn_ids),
        entries=0 if plan.turn_ids else len(plan.erased),
        needed=plan.needed,
        restored=tuple(episode.episode_id for episode in plan.restored),
        files=(*cleaned, *(path.name for path in notes)),
        backups=backups,
        dropped_backups=dropped,
        foreign=tuple(foreign_files_with(places, store.driver, files.told)),
        staying=plan.staying,
    )


def _plural(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
