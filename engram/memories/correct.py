"""Correct or replace a memory, and decide between memories that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass

from engram.enums import Actor, Source, Status
from engram.errors import BadRequest, NotFound
from engram.memories.save import (
    Redact,
    clean_content,
    clean_reason,
    first_sentence,
    judged,
    replace_memory,
    require_memory,
    voice_of,
)
from engram.models.engine.transaction import Store, Tx
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.judgements import BOTH, Contradiction, Ending, ending_of, note_decision, open_contradictions
from engram.models.memories.memory_history import add_run, close_run
from engram.models.memories.memory_records import Memory, may_stand_for


@dataclass(frozen=True, slots=True)
class Correction:
    #: The memory as it was.
    old: Memory
    #: The memory that contains the new text.
    made: Memory
    #: Number of the contradiction for the user to decide; 0 if the old memory was replaced.
    contradiction: int = 0


def correct_memory(
    store: Store, episode_id: str, text: str, why: str, redact: Redact, *, actor: Actor, session_id: str = ""
) -> Correction:
    """Replace a memory with a corrected one. Both histories record the reason.

    The new memory gets the old one's kind, scope, project and importance. An agent can't replace what the user pinned,
    saved, said or chose: its text is stored as a provisional memory, and a contradiction is recorded.

    Args:
        text: the correct text, 1 to 20,000 characters; its first sentence or line becomes the summary.
        why: the reason, 1 to 500 characters.
        session_id: the agent's id of the session; "" if there is none.

    Raises:
        NotFound: there is no such memory.
        BadRequest: the text or the reason can't be used, or another memory has replaced this one.
    """
    content = clean_content(text, redact)
    reason = clean_reason(why, redact)
    with store.transaction() as tx:
        old = require_memory(store, episode_id)
        if old.superseded_by:
            raise BadRequest(f"{episode_id} has been replaced by {old.superseded_by}; correct that memory instead")
        new = Memory(
            episode_id=memory_records.new_memory_id(),
            kind=old.kind,
            summary=first_sentence(content),
            content=content,
            session_id=session_id,
            project_id=old.project_id,
            scope=old.scope,
            importance=old.importance,
            source=Source.MANUAL,
            voice=voice_of(actor),
            confidence=1.0,
            quality=1.0,
            is_pinned=old.is_pinned and actor is Actor.USER,
            extractor="manual",
            valid_from_ms=store.now_ms(),
        )
        made, number = replace_memory(
            tx, old, judged(new, actor), actor=actor, action="correct", reason=f"corrected: {reason}"
        )
    return Correction(old, made, number)


def supersede_memory(store: Store, episode_id: str, successor_id: str, *, actor: Actor) -> Memory:
    """Replace a current memory with another one; return the replaced one. The change is a run, which can be undone.

    Raises:
        NotFound: there is no such memory.
        BadRequest: a memory is not current, both are the same, the new one is not visible wherever the old one is, or
            only the user may replace the old one.
    """
    with store.transaction() as tx:
        old, new = require_memory(store, episode_id), require_memory(store, successor_id)
        if old.episode_id == new.episode_id:
            raise BadRequest("a memory can't replace itself; choose another one")
        for memory in (old, new):
            if not memory.is_current:
                raise BadRequest(f"{memory.episode_id} is already {memory.status.told}; choose current memories")
        if not may_stand_for(new, old):
            raise BadRequest(
                f"{old.episode_id} is visible where {new.episode_id} is not; make {new.episode_id} global first"
            )
        if ending_of(old, new, actor) is not Ending.ENDS:
            raise BadRequest(f"{old.episode_id} was pinned, saved or said by the user, so only the user can replace it")
        run_id = add_run(tx, "save")
        at_ms = new.valid_from_ms or tx.now_ms()
        changed = memory_changes.supersede(tx, old, new, "replaced by hand", actor=actor, run_id=run_id, at_ms=at_ms)
        close_run(tx, run_id, [f"supersede {old.episode_id} by {new.episode_id}"])
    return changed


def keep_one(store: Store, episode_id: str, *, actor: Actor) -> list[str]:
    """Decide all open contradictions of a memory in its favour; return a line about each.

    The memory replaces the others. The decision is a run, which can be undone.

    Raises:
        NotFound: there is no such memory.
        BadRequest: the memory has no open contradiction.
    """
    with store.transaction() as tx:
        kept = require_memory(store, episode_id)
        waiting = _open_contradictions(store, episode_id)
        run_id = add_run(tx, "decide")
        lines = []
        for contradiction in waiting:
            other = require_memory(
                store, contradiction.newer_id if contradiction.older_id == episode_id else contradiction.older_id
            )
            at_ms = kept.valid_from_ms or tx.now_ms()
            memory_changes.supersede(tx, other, kept, "decided by hand", actor=actor, run_id=run_id, at_ms=at_ms)
            note_decision(tx, contradiction.id, episode_id, run_id)
            lines.append(f"supersede {other.episode_id} by {episode_id} (decided by hand)")
        if kept.status == Status.PROVISIONAL:
            _confirm(tx, kept, run_id, actor)
        close_run(tx, run_id, lines)
    return lines


def keep_both(store: Store, which: str, *, actor: Actor) -> list[str]:
    """Decide that both memories of a contradiction are valid, for good; return a line about each contradiction.

    Args:
        which: the number of a contradiction, or the id of a memory for all its contradictions.

    Raises:
        NotFound: there is no such contradiction.
        BadRequest: the memory has no open contradiction.
    """
    with store.transaction() as tx:
        waiting = (
            open_contradictions(store, number=int(which)) if which.isdecimal() else _open_contradictions(store, which)
        )
        if not waiting:
            raise NotFound(f"there is no open contradiction {which}; `engram review` lists them")
        run_id = add_run(tx, "decide")
        lines = []
        for contradiction in waiting:
            for episode_id in (contradiction.older_id, contradiction.newer_id):
                memory = require_memory(store, episode_id)
                if memory.status == Status.PROVISIONAL:
                    _confirm(tx, memory, run_id, actor)
                else:
                    reason = f"both hold: {contradiction.older_id} and {contradiction.newer_id}"
                    memory_changes.note_kept(tx, memory, reason, actor=actor, run_id=run_id)
            note_decision(tx, contradiction.id, BOTH, run_id)
            lines.append(f"keep both {contradiction.older_id} and {contradiction.newer_id}")
        close_run(tx, run_id, lines)
    return lines


def _confirm(tx: Tx, memory: Memory, run_id: int, actor: Actor) -> None:
    memory_changes.change_memory(
        tx, memory, "confirm", "decided by hand", run_id=run_id, status=Status.ACTIVE, actor=actor
    )


def _open_contradictions(store: Store, episode_id: str) -> list[Contradiction]:
    require_memory(store, episode_id)
    waiting = open_contradictions(store, episode_id)
    if not waiting:
        raise BadRequest(f"{episode_id} has no open contradiction; `engram review` lists them")
    return waiting
