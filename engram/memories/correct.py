"""Say what is right: correct, replace or judge a memory or quotation, and decide between memories that contradict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engram.enums import Actor, Judgement, Source, Status
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
from engram.models.memories.judgements import (
    BOTH,
    Contradiction,
    Ending,
    ending_of,
    judgement_of,
    note_decision,
    open_contradictions,
    standing_judgements,
    usefulness_of,
)
from engram.models.memories.memory_changes import DECIDE, change_alone
from engram.models.memories.memory_history import (
    JUDGEMENT_ACTIONS,
    TAKE_BACK,
    Change,
    add_run,
    close_run,
    fields_of_snapshot,
    history_of,
    snapshot,
)
from engram.models.memories.memory_records import Memory, may_stand_for
from engram.models.sessions.passage_rows import Quotation, note_quotation_judgement, require_quotation
from engram.models.shown.injections import withdraw_bites
from engram.transcripts.turns import Role
from engram.trust.display import number_of


@dataclass(frozen=True, slots=True)
class Correction:
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
            tx, old, judged(tx, new, actor), actor=actor, action="correct", reason=f"corrected: {reason}"
        )
    return Correction(made, number)


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
        _check_visible(new, old)
        if ending_of(old, new, actor) is not Ending.ENDS:
            raise BadRequest(f"{old.episode_id} was pinned, saved or said by the user, so only the user can replace it")
        run_id = add_run(tx, "save")
        at_ms = new.valid_from_ms or tx.now_ms()
        changed = memory_changes.supersede(tx, old, new, "replaced by hand", actor=actor, run_id=run_id, at_ms=at_ms)
        close_run(tx, run_id, [f"supersede {old.episode_id} by {new.episode_id}"])
    return changed


def _check_visible(new: Memory, old: Memory) -> None:
    if not may_stand_for(new, old):
        raise BadRequest(
            f"{old.episode_id} is visible where {new.episode_id} is not; make {new.episode_id} global first"
        )


def keep_one(store: Store, episode_id: str, *, actor: Actor) -> list[str]:
    """Decide all open contradictions of a memory in its favour; return a line about each.

    The memory replaces the others. The decision is a run, which can be undone.

    Raises:
        NotFound: there is no such memory.
        BadRequest: the memory has no open contradiction, or is not visible wherever another one is.
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
            _check_visible(kept, other)
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
                    change_alone(tx, memory, DECIDE, reason, actor=actor, run_id=run_id)
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


# -- Judge a memory or a quotation as helpful, wrong or outdated, and withdraw a judgement.


def judge_memory(
    store: Store, episode_id: str, judgement: Judgement, why: str, redact: Redact, *, actor: Actor
) -> Memory:
    """Record a judgement on a memory; return the changed memory.

    A helpful memory ranks slightly higher and never counts as unused. A wrong one is no longer injected, ranks last in
    every answer, and is listed in later requests for extraction. An outdated one is archived, and the memories that it
    had replaced remain replaced. Nothing is deleted, and ``take_back_judgement`` restores the previous state.

    Args:
        judgement: the judgement. Repeating the current one changes nothing.

    Raises:
        NotFound: there is no such memory.
        BadRequest: the reason can't be used, the memory is not current, or only the user may give this judgement:
            an agent neither hides nor ends what the user pinned, saved, said or chose.
    """
    reason = clean_reason(why, redact)
    with store.transaction() as tx:
        memory = require_memory(store, episode_id)
        standing = standing_judgements(history_of(tx, episode_id))
        if judgement is _standing_judgement(memory, standing):
            return memory
        if actor is Actor.AGENT:
            _check_agent(memory, judgement, standing)
        if judgement is not Judgement.WRONG and not memory.is_current:
            raise BadRequest(
                f"{episode_id} is already {memory.status.told}; only a current memory can be judged {judgement}"
            )
        changes = _changes(tx, memory, judgement)
        return change_alone(tx, memory, JUDGEMENT_ACTIONS[judgement], reason, actor=actor, **changes)


def _check_agent(memory: Memory, judgement: Judgement, standing: list[Change]) -> None:
    """Raise BadRequest if an agent tries to overrule the user."""
    ask = f"ask the user, who can run `engram feedback {memory.episode_id} {judgement}`"
    if standing and standing[-1].actor is Actor.USER:
        raise BadRequest(f"the user judged {memory.episode_id} as {judgement_of(standing[-1])}; {ask}")
    # "Wrong" doesn't end a memory, but hides it, so it needs the same authority.
    if judgement is Judgement.HELPFUL or ending_of(memory, None, Actor.AGENT) is Ending.ENDS:
        return
    raise BadRequest(
        f"{memory.episode_id} was pinned, saved or said by the user, and is kept; {ask}, "
        "or note with memory_correct what should hold instead, so that the user decides in `engram review`"
    )


def _standing_judgement(memory: Memory, standing: list[Change]) -> Judgement | None:
    """Return the current judgement. Imported and recovered memories may be lowered without a recorded step."""
    if standing:
        return judgement_of(standing[-1])
    return Judgement.WRONG if memory.is_lowered else None


def _changes(tx: Tx, memory: Memory, judgement: Judgement) -> dict[str, Any]:
    if judgement is Judgement.OUTDATED:
        return {"status": Status.ARCHIVED, "valid_to_ms": tx.now_ms()}
    is_lowered = judgement is Judgement.WRONG
    return {} if memory.is_lowered == is_lowered else {"is_lowered": is_lowered}


def take_back_judgement(store: Store, episode_id: str, *, actor: Actor) -> tuple[Memory, str]:
    """Withdraw the last judgement on a memory; return the memory and a description of what was withdrawn.

    The fields that the judgement changed are restored, and an earlier judgement applies again. If there is no
    judgement, sessions in which the memory was not used no longer count against it.

    Raises:
        NotFound: there is no such memory.
        BadRequest: there is nothing to withdraw, the fields have been changed since, or an agent tries to withdraw a
            judgement that no agent made.
    """
    with store.transaction() as tx:
        memory = require_memory(store, episode_id)
        standing = standing_judgements(history_of(tx, episode_id))
        _check_taking_back(episode_id, standing, actor)
        if not standing:
            return _take_back_unwritten(tx, memory, actor)
        step = standing[-1]
        now = snapshot(memory)
        changed = [name for name, value in step.after.items() if now[name] != value]
        if changed:
            raise BadRequest(
                f"{episode_id} has been changed since it was judged ({', '.join(changed)}), so the judgement "
                f"can't be withdrawn; `engram expand {episode_id} --why` shows its history"
            )
        judgement = judgement_of(step)
        fields = fields_of_snapshot(step.before)
        reason = f"judged {judgement}: {step.reason}"
        changed_back = change_alone(tx, memory, TAKE_BACK, reason, actor=actor, undoes=step.id, **fields)
        return changed_back, f"the judgement as {judgement}"


def _take_back_unwritten(tx: Tx, memory: Memory, actor: Actor) -> tuple[Memory, str]:
    """Revert what no step of history records: that a memory is lowered, or that it ranks lower because it is unused."""
    if memory.is_lowered:
        raised = change_alone(tx, memory, TAKE_BACK, "judged wrong", actor=actor, is_lowered=False)
        return raised, "the judgement as wrong"
    uses = usefulness_of(tx, [memory.episode_id]).get(memory.episode_id)
    if uses is None or not uses.unused:
        raise BadRequest(
            f"{memory.episode_id} was neither judged nor lowered for being unused: there is nothing to withdraw"
        )
    what = f"{number_of(uses.unused, 'session')} without a use of it"
    return change_alone(tx, memory, TAKE_BACK, f"reset: {what}", actor=actor), what


def _check_taking_back(judged_id: str, standing: list[Change], actor: Actor) -> None:
    """Raise BadRequest if an agent tries to withdraw a judgement that no agent made."""
    if actor is Actor.AGENT and not (standing and standing[-1].actor is Actor.AGENT):
        raise BadRequest(f"no agent judged {judged_id}; ask the user, who can run `engram feedback {judged_id} --off`")


def judge_quotation(
    store: Store, text: str, judgement: Judgement, why: str, redact: Redact, *, actor: Actor
) -> Quotation:
    """Record a judgement on a quotation.

    A wrong or outdated quotation is no longer shown, neither as a bite nor in answers, and neither is any passage with
    the same words. Its turn is kept, and ``take_back_quotation_judgement`` reverts this.

    Raises:
        NotFound: there is no such quotation.
        BadRequest: the reason can't be used, or an agent tries to overrule the user.
    """
    reason = clean_reason(why, redact)
    with store.transaction() as tx:
        quotation = require_quotation(tx, text)
        standing = standing_judgements(history_of(tx, text))
        if standing and judgement_of(standing[-1]) is judgement:
            return quotation
        if actor is Actor.AGENT:
            _check_agent_on_quotation(quotation, judgement, standing)
        note_quotation_judgement(tx, text, JUDGEMENT_ACTIONS[judgement], reason, actor=actor)
        withdraw_bites(tx, lambda: [text])
        return quotation


def _check_agent_on_quotation(quotation: Quotation, judgement: Judgement, standing: list[Change]) -> None:
    """Raise BadRequest if an agent tries to overrule the user, or to hide what the user said or chose."""
    quoted_id = quotation.quotation_id
    ask = f"ask the user, who can run `engram feedback {quoted_id} {judgement}`"
    if standing and standing[-1].actor is Actor.USER:
        raise BadRequest(f"the user judged {quoted_id} as {judgement_of(standing[-1])}; {ask}")
    is_users = quotation.role in (Role.USER, Role.CHOSEN) and quotation.stored.turn.is_by_person
    if judgement is not Judgement.HELPFUL and is_users:
        raise BadRequest(f"{quoted_id} is what the user said, and stays; {ask}")


def take_back_quotation_judgement(store: Store, text: str, *, actor: Actor) -> str:
    """Withdraw the last judgement on a quotation; return a description of the judgement.

    Raises:
        NotFound: there is no such quotation.
        BadRequest: there is no judgement, or an agent tries to withdraw one that no agent made.
    """
    with store.transaction() as tx:
        require_quotation(tx, text)
        standing = standing_judgements(history_of(tx, text))
        _check_taking_back(text, standing, actor)
        if not standing:
            raise BadRequest(f"{text} has not been judged")
        judgement = judgement_of(standing[-1])
        note_quotation_judgement(tx, text, TAKE_BACK, f"judged {judgement}: {standing[-1].reason}", actor=actor)
        return f"the judgement as {judgement}"
