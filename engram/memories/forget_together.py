"""Forget several memories in one pass, as another machine asked: files first, then everything in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from engram.atomic import drop_leftovers
from engram.enums import Actor
from engram.errors import NotFound
from engram.memories.forget_files import clean_copies
from engram.memories.forget_plan import ForgetPlan, plan_forget
from engram.memories.forget_preview import ForgottenFiles
from engram.models import forgetting
from engram.models.backup import holding_backups
from engram.models.hub_incoming import stand_alone
from engram.models.standing_files import forget_standing_lines
from engram.models.store import Store
from engram.models.transaction import Tx
from engram.notes.daily import log_session, move_saved_notes
from engram.notes.day_files import notes_lock
from engram.paths import Home

logger = logging.getLogger(__name__)


def forget_together(
    store: Store, places: Home, episode_ids: Sequence[str], change_too: Callable[[Tx], None], *, actor: Actor
) -> int:
    """Delete memories everywhere in the memory folder, as ``forget_episode`` does; returns how many went.

    Memories that tidying had merged with them here stay: they were not forgotten.

    Args:
        store: the open memory.
        places: the memory folder.
        episode_ids: the memories; those that are not there are passed over.
        change_too: what else changes in the same transaction.
        actor: who forgets them.

    Raises:
        StoreError: the database cannot be written; nothing was deleted from it, and it can be repeated.
    """
    with store.transaction() as tx:
        stand_alone(tx, episode_ids)
    plans = _plans(store, episode_ids)
    if not plans:
        with store.transaction() as tx:
            change_too(tx)
        return 0
    every = [ForgottenFiles.of(store, plan) for plan in plans]

    def is_kept(line: str) -> bool:
        return all(files.is_kept(line) for files in every)

    def forget_in_copy(tx: Tx) -> int:
        return sum(forgetting.forget_in_copy(tx, files.forgotten, is_kept, actor=actor) for files in every)

    with holding_backups(places.backups):
        with notes_lock(places):
            drop_leftovers(places.root, 0)
        move_saved_notes(places)
        clean_copies(places, store.driver, forget_in_copy)
        notes = list(dict.fromkeys(path for files in every for path in files.clean(places)[1]))
        with store.transaction() as tx:
            for episode_id in episode_ids:
                for plan in _plans(store, [episode_id]):
                    forgetting.delete_forgotten(tx, plan.forgotten(store), actor=actor)
            forgetting.clean_runs(tx, is_kept)
            forgetting.clean_reasons(tx, is_kept)
            forget_standing_lines(tx, is_kept)
            forgetting.drop_notes(tx, [str(path) for path in notes])
            change_too(tx)
    for session_id in dict.fromkeys(session for files in every for session in files.sessions):
        log_session(store, places, session_id)
    forgetting.wipe_free_space(store)
    gone = {episode_id for files in every for episode_id in files.forgotten.episode_ids}
    logger.info("action=forget_together episodes=%d notes=%d", len(gone), len(notes))
    return len(gone)


def _plans(store: Store, episode_ids: Sequence[str]) -> list[ForgetPlan]:
    plans = []
    for episode_id in episode_ids:
        try:
            plans.append(plan_forget(store, episode_id))
        except NotFound:
            continue
    return plans
