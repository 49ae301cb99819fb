"""Judge a memory or a quotation as helpful, wrong or outdated, and withdraw a judgement."""

from __future__ import annotations

from typing import Any

from engram.enums import Actor, Judgement, Status
from engram.errors import BadRequest
from engram.memories.save import Redact, clean_reason, require_memory
from engram.models.engine.transaction import Store, Tx
from engram.models.memories.judgements import (
    Ending,
    ending_of,
    is_kept_by_hand,
    judgement_of,
    standing_judgements,
    usefulness_of,
)
from engram.models.memories.memory_changes import note_judgement
from engram.models.memories.memory_history import (
    JUDGEMENT_ACTIONS,
    TAKE_BACK,
    Change,
    fields_of_snapshot,
    history_of,
    snapshot,
)
from engram.models.memories.memory_records import Memory
from engram.models.sessions.passage_rows import Quotation, note_quotation_judgement, require_quotation
from engram.trust.display import number_of


def judge_memory(
    store: Store, episode_id: str, judgement: Judgement, why: str, redact: Redact, *, actor: Actor
) -> Memory:
    """Record a judgement on a memory; return the changed memory.

    A helpful memory ranks slightly higher and never counts as unused. A wrong one is no longer injected, ranks last in
    every answer, and is listed in later requests for extraction. An outdated one is archived, and the memories that it
    had replaced remain replaced. Nothing is deleted, and ``take_back_judgement`` restores the previous state.

    Args:
        judgement: the judgement. Repeating the current one changes nothing.
        why: the reason, 1 to 500 characters, recorded in the history.

    Raises:
        NotFound: there is no such memory.
        BadRequest: the reason can't be used, the memory is not current, or only the user may give this judgement.
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
        return note_judgement(tx, memory, JUDGEMENT_ACTIONS[judgement], reason, actor=actor, **changes)


def _check_agent(memory: Memory, judgement: Judgement, standing: list[Change]) -> None:
    """Raise BadRequest if an agent tries to overrule the user."""
    ask = f"ask the user, who can run `engram feedback {memory.episode_id} {judgement}`"
    if standing and standing[-1].actor is Actor.USER:
        raise BadRequest(f"the user judged {memory.episode_id} as {judgement_of(standing[-1])}; {ask}")
    may_end = ending_of(memory, None, Actor.AGENT) is Ending.ENDS
    # "Wrong" doesn't end a memory, so an agent may give it to text that an extractor took for the user's words.
    if judgement is Judgement.HELPFUL or may_end or (judgement is Judgement.WRONG and not is_kept_by_hand(memory)):
        return
    raise BadRequest(f"{memory.episode_id} was pinned, saved or said by the user, and is kept; {ask}")


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
        changed_back = note_judgement(tx, memory, TAKE_BACK, reason, actor=actor, undoes=step.id, **fields)
        return changed_back, f"the judgement as {judgement}"


def _take_back_unwritten(tx: Tx, memory: Memory, actor: Actor) -> tuple[Memory, str]:
    """Revert what no step of history records: that a memory is lowered, or that it ranks lower because it is unused."""
    if memory.is_lowered:
        raised = note_judgement(tx, memory, TAKE_BACK, "judged wrong", actor=actor, is_lowered=False)
        return raised, "the judgement as wrong"
    uses = usefulness_of(tx, [memory.episode_id]).get(memory.episode_id)
    if uses is None or not uses.unused:
        raise BadRequest(
            f"{memory.episode_id} was neither judged nor lowered for being unused: there is nothing to withdraw"
        )
    what = f"{number_of(uses.unused, 'session')} without a use of it"
    return note_judgement(tx, memory, TAKE_BACK, f"counted anew: {what}", actor=actor), what


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
        if standing and actor is Actor.AGENT and standing[-1].actor is Actor.USER:
            raise BadRequest(f"the user judged {text} as {judgement_of(standing[-1])}; ask the user")
        note_quotation_judgement(tx, text, JUDGEMENT_ACTIONS[judgement], reason, actor=actor)
        return quotation


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
