"""The steps of a consolidation that use a language model, within fixed rules.

The model decides which memories of a project end or repeat others, and redoes the local extractor's memories.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import archive_repeated
from engram.enums import Actor, Scope
from engram.errors import Conflict, ExtractionError
from engram.models.memories import memory_changes
from engram.models.memories.judgements import ENDING_REASONS, Ending, ending_of, note_contradiction
from engram.models.memories.memory_records import Memory
from engram.models.sessions.stored_turns import second_chances
from engram.text.words import words_of
from engram.trust.display import number_of

if TYPE_CHECKING:
    from engram.extraction.model.reconcile import Relation

logger = logging.getLogger(__name__)

#: Minimum number of words that two memories must have in common to be related by the model.
MIN_SHARED_WORDS = 2


def reconcile(context: Context) -> None:
    """Relate the memories of each project that has new or changed memories since the last run.

    If the model is unavailable, this is retried by the next complete comparison. A dry run does not call the model.
    """
    if context.reconciling is None or context.is_dry:
        return
    own: dict[int, list[int]] = {}
    for memory in context.current_memories():
        # Other people's memories are not shown to the model, because they could persuade it to end the user's own.
        if not memory.origin and memory.scope == Scope.PROJECT and memory.project_id is not None:
            own.setdefault(memory.project_id, []).append(memory.id)
    for _, row_ids in sorted(own.items()):
        context.check_time()
        if context.changed is not None and context.changed.isdisjoint(row_ids):
            continue
        memories = list(context.read_current(row_ids))
        new = frozenset(e.id for e in memories if context.changed is None or e.id in context.changed)
        if not new:
            continue
        try:
            relations = context.reconciling.relate(memories, new)
        except ExtractionError as error:
            logger.info("action=reconcile failed=%s", error)
            continue
        for relation in relations:
            _apply(context, relation)


def _apply(context: Context, relation: Relation) -> None:
    older, newer = relation.older, relation.newer
    if newer.holds_from_ms < older.holds_from_ms or not _is_about_the_same(newer, older) or older.suspect:
        return
    ending = ending_of(older, newer, Actor.MODEL)
    if relation.action == "same":
        if ending is Ending.ENDS and not context.is_undone("archive", older):
            came_back, confirmations = f"repeats what {older.episode_id} said", older.confirmations + 1
            archive_repeated(context, newer, older, came_back, confirmations=confirmations, actor=Actor.MODEL)
        return
    reason = ENDING_REASONS[relation.action]
    if ending is Ending.CONTRADICTION:
        with context.store.transaction() as tx:
            if context.unchanged(tx, older, newer) is not None:
                note_contradiction(tx, older.episode_id, newer.episode_id, f"{reason}: {newer.summary}")
        return
    if ending is not Ending.ENDS or context.is_undone("supersede", older):
        return
    with context.store.transaction() as tx:
        if (now := context.unchanged(tx, older, newer)) is None:
            return
        why = f"{newer.episode_id} {reason}"
        memory_changes.supersede(tx, now[0], newer, why, actor=Actor.MODEL, run_id=context.run_id)
        context.add_line(f"supersede {older.episode_id} by {newer.episode_id} ({reason})")


def _is_about_the_same(first: Memory, second: Memory) -> bool:
    words = words_of(" ".join((first.summary, *first.entities)))
    return len(words & words_of(" ".join((second.summary, *second.entities)))) >= MIN_SHARED_WORDS


def distill_again(context: Context) -> None:
    """Distill waiting sessions again, each part in a separate run that can be undone."""
    if context.distilling is None:
        return
    if context.is_dry:
        waiting = second_chances(context.store).waiting
        if waiting:
            context.add_line(f"distill {number_of(waiting, 'session')} again")
        return
    while True:
        context.check_time()
        try:
            part = context.distilling.distill_next()
        except (ExtractionError, Conflict) as error:
            logger.info("action=distill_again paused=%s", error)
            return
        if part is None:
            return
        context.add_line(
            f"distill {number_of(part.turns, 'turn')} of session {part.session_id} again: "
            f"{part.new} new, {part.replaced} replaced"
        )
