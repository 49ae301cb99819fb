"""The steps of a consolidation: supersede, merge, age, pack and confirm memories, write the daily log, ask a model.

Each change has its own transaction.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engram.consolidation.step_context import Context
from engram.enums import Actor, Importance, Kind, Scope, Source, Status
from engram.errors import Conflict, ExtractionError
from engram.forgetting.forget_plan import comparable, merged_content, merged_summary
from engram.models.memories import judgements, memory_changes, memory_history, memory_records
from engram.models.memories.judgements import ENDING_REASONS, Ending, ending_of
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.search import memory_lists
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import StoredTurn, second_chances, turns_of_session
from engram.models.work.work import settled_ms
from engram.notes.daily_log import log_session
from engram.system.clock import DAY_MS
from engram.system.failpoint import reach
from engram.system.lazy_regex import lazy_regex
from engram.text import subject
from engram.text.replacements import rivals_in
from engram.text.shell import is_test_command, part_with_known_status
from engram.text.subject import agrees
from engram.text.titles import MAX_QUESTIONS
from engram.text.words import words_of
from engram.transcripts.turns import Role, Turn
from engram.trust.display import number_of

logger = logging.getLogger(__name__)

# -- Age memories. Pure.

#: Number of days for which a memory keeps its full weight.
ACTIVE_DAYS = 30
#: Weight of a memory of normal importance after that.
AGED_WEIGHT = 0.7
#: Number of days after which an unconfirmed provisional memory is archived.
PROVISIONAL_DAYS = 60


@dataclass(frozen=True, slots=True)
class Ageing:
    """The effect of age on a memory: a weight, and a status with the reason for it."""

    weight: float
    status: Status
    reason: str = ""


def aged(memory: Memory, now_ms: int, archive_days: int) -> Ageing:
    """Return a memory's status and weight according to its age, counted from its creation or last use.

    Pinned, high-importance and manually saved memories never age.
    """
    same = Ageing(memory.weight, memory.status)
    if memory.is_pinned or memory.importance == Importance.HIGH or memory.source == Source.MANUAL:
        return same
    last_use = max(memory.created_at_ms, memory.kept_at_ms, memory.accessed_at_ms or 0)
    age_days = (now_ms - last_use) / DAY_MS
    if memory.status == Status.ACTIVE and age_days >= archive_days:
        return Ageing(memory.weight, Status.ARCHIVED, f"not used for {archive_days} days")
    if memory.status == Status.PROVISIONAL and age_days >= PROVISIONAL_DAYS:
        return Ageing(memory.weight, Status.ARCHIVED, f"not confirmed for {PROVISIONAL_DAYS} days")
    if age_days >= ACTIVE_DAYS and memory.weight > AGED_WEIGHT:
        return Ageing(AGED_WEIGHT, memory.status, f"older than {ACTIVE_DAYS} days")
    return same


# -- Supersede memories: recognise, by wording, meaning and names, that a newer memory replaces an older one.

#: Kinds of memories that a later statement can make outdated; this also applies to saved facts.
_CHANGING = (Kind.DECISION, Kind.PREFERENCE)
#: Minimum cosine if the newer memory names something that it abandons and the older one chose.
NAMED_COSINE = 0.40
#: Minimum cosine if the newer memory states only that something changed.
CHANGED_COSINE = 0.55
#: Minimum cosine if the newer memory is the same statement with a different value, or its opposite.
SAME_COSINE = 0.70

_ARTICLE = r"(?:(?:the|our|a|an|use|using|of|all|unused) )*"
#: Up to six words, until the sentence moves on to something else.
_OBJECT = (
    rf"{_ARTICLE}(?P<object>[\w./+#'-]+(?: [\w./+#'-]+){{0,5}}?)"
    r"(?= (?:to|into|with|by|for|as|and|in|on|because|since|here|there)\b| *[,;:()]|\.(?: |$)| *$)"
)
#: Wordings that name the thing that is abandoned.
_GIVEN_UP = [
    lazy_regex(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:instead of|rather than|in place of|not any ?more|no more) {_OBJECT}",
        rf"\bno longer (?:in |use[sd]? |need(?:ed)? |support(?:ed)? |want )?{_OBJECT}",
        rf"\b(?:switch|mov|migrat|chang|went|go)\w*\b[^.;]{{0,40}}? from {_OBJECT}",
        rf"\breplac(?:e[sd]?|ing) {_OBJECT}",
        rf"\b(?:drop(?:ped|ping)?|remov(?:e|ed|ing)|abandon(?:ed|ing)?|revert(?:ed|ing)?|deprecat(?:e|ed|ing)"
        rf"|scrap(?:ped)?|ditch(?:ed|ing)?|stop(?:ped|ping)?|retir(?:e|ed|ing)|undo|undid|giv(?:e|ing) up|gave up) "
        rf"{_OBJECT}",
        r"(?:^|[,.;:] ?)(?P<object>[^,.;:()]{2,60}?) (?:is|are|was|were|has been|gets?|got) "
        r"(?:replaced|dropped|removed|reverted|abandoned|superseded|retired|deprecated|only checked|gone|no longer\b)",
        rf"\bnot (?:only |just )?(?:from )?{_OBJECT}",
    )
]
#: Summaries longer than this, in words, may be about several things and need a higher cosine.
MAX_SIMPLE_WORDS = 22
#: How much higher their cosine must be.
LONG_EXTRA_COSINE = 0.2

#: The reason that two memories differ in a value, although neither says that the other one is over.
OTHER_VALUE = "gives another value"
#: Wordings that announce a change.
_CHANGED = lazy_regex(
    r"\b(?:from now on|now\b|any ?more|no longer|chang(?:ed?|ing) (?:our|my|the) mind|back to|after all|going forward|"
    r"switch\w* (?:back )?to|mov(?:e|ed|ing) to|migrat\w+ to|chang\w+ (?:it )?to|rais(?:e|ed)|lower(?:ed)?|increas\w+|"
    r"decreas\w+|bump\w*|renam\w+|actually|update[d:]?|correction|revised?|reconsider\w*|new decision|instead)\b",
    re.IGNORECASE,
)


def why_outdated(newer: Memory, older: Memory, cosine: float) -> str:
    """Return why ``newer`` and ``older`` can't both be true; "" if they can.

    They can't if they are about the same subject and the newer one abandons, changes or denies what the older one says.

    Args:
        older: a memory that was said earlier in the same project, or a global one if both are global.
    """
    if not (_may_change(newer) and _may_change(older)):
        return ""
    new, old = words_of(newer.summary), words_of(older.summary)
    if max(len(newer.summary.split()), len(older.summary.split())) > MAX_SIMPLE_WORDS:
        cosine -= LONG_EXTRA_COSINE
    if cosine >= NAMED_COSINE and (named := _names_given_up(newer.summary, older.summary)):
        return f"gives up “{named}”"
    shared = new & old
    if len(shared) < 2 and cosine < SAME_COSINE:
        return ""
    overlap = len(shared) / max(1, min(len(new), len(old)))
    cue = _CHANGED.search(newer.summary) if cosine >= CHANGED_COSINE and overlap >= 0.4 else None
    if cue is not None and subject.changes_value(newer.summary, older.summary):
        return f"says so: “{cue.group(0)}”"
    if cosine >= SAME_COSINE and overlap >= 0.5:
        if subject.is_denied(newer.summary, older.summary) and subject.says_opposite(newer.summary, older.summary):
            return "says the opposite"
        if subject.gives_another_value(newer.summary, older.summary):
            return OTHER_VALUE
    return ""


def says_otherwise(first: str, second: str) -> bool:
    """Return True if one of two similar summaries states a different value or denies the other one."""
    values, others = _values(words_of(first)), _values(words_of(second))
    return subject.is_denied(first, second) or bool(values - others and others - values)


def _may_change(memory: Memory) -> bool:
    return memory.kind in _CHANGING or (memory.kind == Kind.FACT and memory.source == Source.MANUAL)


def _names_given_up(newer: str, older: str) -> str:
    """Return what the newer text abandons, if the older one chose it for the same subject; otherwise ""."""
    new, old = words_of(newer), words_of(older)
    for pattern in _GIVEN_UP:
        for match in pattern.finditer(newer):
            given_up = words_of(match.group("object"))
            kept = new - given_up
            if (
                given_up & old
                and len(given_up & old) >= len(given_up) / 2
                and (kept & old or len(given_up & old) >= 2)
                and subject.has_same_subject(newer, older, given_up)
            ):
                return match.group("object").strip()[:40]
    return ""


def _values(words: frozenset[str]) -> frozenset[str]:
    """Return the words that are probably values: numbers, versions, names with digits or special characters."""
    return frozenset(word for word in words if word in subject.NUMBER_WORDS or re.search(r"[\d_./+#-]", word))


def supersede_pairs(context: Context, pairs: Iterable[tuple[int, int, float]]) -> None:
    """Supersede the older memory of each pair if the newer one replaces it.

    If ``ending_of`` leaves the decision to the user, both memories are kept and a contradiction is recorded. ``pairs``
    comes from ``Context.pairs``.
    """
    gone: set[int] = set()
    for first, second, cosine in context.read_pairs(pairs, gone):
        older, newer = sorted((first, second), key=lambda e: (e.holds_from_ms, e.id))
        is_spared = older.id in gone or context.is_undone("supersede", older)
        reason = "" if is_spared else _reason(older, newer, cosine)
        is_inferred = reason == OTHER_VALUE and rivals_in(newer.summary, older.summary) is not None
        ending = ending_of(older, newer, Actor.TIDYING, is_inferred=is_inferred) if reason else Ending.STAYS
        if ending is Ending.CONTRADICTION:
            if context.is_dry or _note_contradiction(context, older, newer, reason):
                context.add_line(f"contradiction between {older.episode_id} and {newer.episode_id} ({reason})")
        elif ending is Ending.ENDS and (context.is_dry or _supersede(context, older, newer, reason)):
            context.add_line(f"supersede {older.episode_id} by {newer.episode_id} ({reason})")
            gone.add(older.id)


def _note_contradiction(context: Context, older: Memory, newer: Memory, reason: str) -> int:
    """Record a contradiction; return 0 if it is known, or if a memory has changed since it was read."""
    with context.store.transaction() as tx:
        if context.unchanged(tx, older, newer) is None:
            return 0
        return judgements.note_contradiction(tx, older.episode_id, newer.episode_id, reason)


def _supersede(context: Context, older: Memory, newer: Memory, reason: str, *, actor: Actor = Actor.TIDYING) -> bool:
    """Supersede the older memory; return False if either has changed since it was read."""
    with context.store.transaction() as tx:
        if (now := context.unchanged(tx, older, newer)) is None:
            return False
        why = f"{newer.episode_id} {reason}"
        memory_changes.supersede(tx, now[0], newer, why, actor=actor, run_id=context.run_id)
    return True


def _reason(older: Memory, newer: Memory, cosine: float) -> str:
    # A newer memory ends the older one even if the newer one has itself been superseded since.
    are_current = older.is_current and (newer.is_current or newer.status == Status.SUPERSEDED) and not older.suspect
    same_place = (older.project_id, older.scope) == (newer.project_id, newer.scope)
    is_later = newer.holds_from_ms > older.holds_from_ms
    return why_outdated(newer, older, cosine) if are_current and same_place and is_later else ""


#: Kinds of memories for which near-duplicates are merged. Turns and states are not, because they record a point in
#: time.
_MERGED_KINDS = (Kind.DECISION, Kind.PREFERENCE, Kind.FIX, Kind.FACT, Kind.DEAD_END)


def archive_exact_duplicates(context: Context) -> None:
    """Archive exact duplicates in a project and scope; keep the one judged wrong, otherwise the most trusted one.

    A memory is not merged into one with less authority; either the other one is archived, or both are kept.
    """
    if context.changed is not None and not context.changed:
        return
    # Digest of a memory's text and scope → its row id.
    first: dict[bytes, int] = {}
    for memory in context.current_memories():
        context.check_time()
        key = _digest_of_said(memory)
        kept = next(context.read_current([first[key]]), None) if key in first else memory
        if kept is None or kept.id == memory.id:
            first[key] = memory.id
            continue
        if memory.is_lowered != kept.is_lowered:
            # A memory that repeats a wrong one is also wrong, unless somebody stated it in spite of the judgement.
            kept, memory = (memory, kept) if memory.is_lowered else (kept, memory)
            may_end = ending_of(memory, kept, Actor.TIDYING, is_users_word=False) is Ending.ENDS
        else:
            if not _may_join(memory, kept):
                kept, memory = memory, kept
            may_end = _may_join(memory, kept)
        if may_end and not context.is_undone("archive", memory):
            came_back = f"came back as {memory.episode_id}"
            kept = archive_repeated(context, kept, memory, came_back, confirmations=1, actor=Actor.TIDYING)
            first[key] = kept.id


def _may_join(merged: Memory, kept: Memory) -> bool:
    """Return True if a memory may be merged into another with the same words."""
    return ending_of(merged, kept, Actor.TIDYING, is_same_text=True) is Ending.ENDS


def _digest_of_said(memory: Memory) -> bytes:
    said = (comparable(memory.summary), memory.project_id, memory.scope, memory.origin, comparable(memory.content))
    return hashlib.sha256(repr(said).encode("utf-8", "surrogatepass")).digest()


def archive_repeated(
    context: Context, kept: Memory, merged: Memory, came_back: str, *, confirmations: int, actor: Actor
) -> Memory:
    """Archive ``merged`` and add its evidence to ``kept``; return ``kept`` as stored afterwards.

    If ``merged`` is from another session, it confirms ``kept``, for the reason ``came_back``, raising it to
    ``confirmations``.
    """
    line = f"archive {merged.episode_id} (says the same as {kept.episode_id})"
    if context.is_dry:
        context.add_line(line)
        return kept
    with context.store.transaction() as tx:
        reach("consolidate.begin")
        if (now := context.unchanged(tx, kept, merged)) is None:
            return kept
        kept, merged = now
        memory_changes.merge_evidence(tx, kept, merged, run_id=context.run_id, actor=actor)
        context.archive_into(tx, merged, kept, "says the same as", actor)
        if merged.session_id != kept.session_id:
            kept = memory_changes.change_memory(
                tx,
                kept,
                "confirm",
                came_back,
                run_id=context.run_id,
                confirmations=kept.confirmations + confirmations,
                status=Status.ACTIVE,
                actor=actor,
            )
        context.add_line(line)
        reach("consolidate.changed")
    reach("consolidate.committed")
    return kept


def merge_near_duplicates(context: Context) -> None:
    """Merge memories of the same kind and project with nearly equal vectors: the older one absorbs the newer."""
    gone: set[int] = set()
    for first, second, cosine in context.read_pairs(context.pairs(context.duplicate_cosine), gone):
        if first.id in gone or second.id in gone:
            continue
        older, newer = sorted((first, second), key=lambda e: (e.created_at_ms, e.id))
        is_wanted = _may_merge(older, newer) and not context.is_undone("archive", newer)
        if is_wanted and _merge(context, older, newer, cosine):
            gone |= {first.id, second.id}


def _may_merge(older: Memory, newer: Memory) -> bool:
    are_current = all(e.is_current and not e.suspect for e in (older, newer))
    are_judged_alike = older.is_lowered == newer.is_lowered
    same_place = (older.project_id, older.scope, older.kind) == (newer.project_id, newer.scope, newer.kind)
    # The texts are combined, so neither memory may be somebody else's or kept by hand.
    same_voice = (older.voice, older.origin) == (newer.voice, newer.origin)
    may_end = all(ending_of(*pair, Actor.TIDYING) is Ending.ENDS for pair in ((older, newer), (newer, older)))
    if not (are_current and are_judged_alike and same_place and same_voice and may_end):
        return False
    if older.kind not in _MERGED_KINDS:
        return False
    return not says_otherwise(older.summary, newer.summary)


def _merge(context: Context, older: Memory, newer: Memory, cosine: float) -> bool:
    """Append the newer memory to the older one, and archive the newer one.

    Return False if either has changed since it was read.
    """
    line = f"merge {newer.episode_id} into {older.episode_id} (cosine {cosine:.3f})"
    if context.is_dry:
        context.add_line(line)
        return True
    with context.store.transaction() as tx:
        reach("consolidate.begin")
        if (now := context.unchanged(tx, older, newer)) is None:
            return False
        older, newer = now
        memory_changes.merge_evidence(tx, older, newer, run_id=context.run_id, actor=Actor.TIDYING)
        memory_changes.change_memory(
            tx,
            older,
            "merge",
            f"took up {newer.episode_id}",
            run_id=context.run_id,
            **_merged_fields(older, newer),
            actor=Actor.TIDYING,
        )
        context.archive_into(tx, newer, older, "merged into", Actor.TIDYING)
        context.add_line(line)
        reach("consolidate.changed")
    reach("consolidate.committed")
    return True


def _merged_fields(older: Memory, newer: Memory) -> dict[str, Any]:
    """Return the changes to the older memory: both texts, the higher importance, confirmed if the sessions differ."""
    fields: dict[str, Any] = {
        "summary": merged_summary(older.summary, newer.summary),
        "content": merged_content(older.content, newer.content),
        "importance": Importance.HIGH if Importance.HIGH in (older.importance, newer.importance) else Importance.NORMAL,
        "entities": tuple(dict.fromkeys([*older.entities, *newer.entities]))[:20],
        "questions": tuple(dict.fromkeys([*older.questions, *newer.questions]))[:MAX_QUESTIONS],
    }
    if older.session_id != newer.session_id:
        fields |= {"confirmations": older.confirmations + 1, "status": Status.ACTIVE}
    return memory_changes.differing(older, fields)


def age(context: Context) -> None:
    """Lower the weight of old memories, and archive unused ones that no person has edited."""
    now = settled_ms(context.store)
    for memory in context.current_memories():
        context.check_time()
        wanted = aged(memory, now, context.settings.archive_days)
        if (wanted.weight, wanted.status) == (memory.weight, memory.status):
            continue
        if wanted.status != memory.status and _was_edited(context, memory):
            continue
        if context.change(
            memory, "age", wanted.reason, weight=wanted.weight, status=wanted.status, actor=Actor.TIDYING
        ):
            verb = "archive" if wanted.status != memory.status else "age"
            context.add_line(f"{verb} {memory.episode_id} ({wanted.reason})")


def _was_edited(context: Context, memory: Memory) -> bool:
    steps = memory_history.history_of(context.store, memory.episode_id)
    return any(step.action == "edit" and step.actor is Actor.USER for step in steps)


def pack_old(context: Context) -> None:
    """Compress the content, but not the summary or evidence, of memories untouched for ``compress_days`` days."""
    days = context.settings.compress_days
    for memory in memory_lists.unpacked_before(context.store, context.store.now_ms() - days * DAY_MS):
        context.check_time()
        if not context.is_dry:
            with context.store.transaction() as tx:
                if (now := context.unchanged(tx, memory)) is None:
                    continue
                memory_changes.pack_old_content(
                    tx, now[0], f"older than {days} days", run_id=context.run_id, actor=Actor.TIDYING
                )
        context.add_line(f"pack {memory.episode_id} (older than {days} days)")


def write_digests(context: Context, since_ms: int) -> None:
    """Write the sections of the daily log for every session that has grown since the last run."""
    for session_id in memory_history.sessions_grown_since(context.store, since_ms):
        context.check_time()
        if not context.is_dry:
            log_session(context.store, context.settings.places, session_id)


# -- Confirm provisional memories if the user agreed, a test passed, or another session said the same.

#: Kinds that a passing test confirms.
_TESTED = (Kind.FIX, Kind.FACT, Kind.DEAD_END)

#: The beginning of the recorded reason for a confirmation by a person or a test.
USER_AGREED, TEST_PASSED = "the user agreed", "a test passed"


def passed_test(turn: Turn) -> str:
    """Return the last test command of a turn if it passed; "" if it failed, is undecided, or no test was run."""
    ran = [a for a in turn.actions if a.command and a.is_error is not None and is_test_command(a.command)]
    has_passed = bool(ran) and not ran[-1].is_error and is_test_command(part_with_known_status(ran[-1].command))
    return ran[-1].command[:80] if has_passed else ""


def why_confirmed(memory: Memory, evidence: Sequence[Evidence], turns: Sequence[StoredTurn]) -> str:
    """Return what confirms a provisional memory; "" if nothing does.

    Args:
        evidence: the entries that the memory rests on, the main one first.
        turns: the turns of the memory's session, in order.
    """
    if len({entry.session_id for entry in evidence if entry.session_id}) > 1:
        return "it came back in another session"
    places = {stored.id: place for place, stored in enumerate(turns)}
    place = places.get(evidence[0].turn_id or -1) if evidence else None
    if place is None:
        return ""
    turn = turns[place].turn
    following = turns[place + 1].turn if place + 1 < len(turns) else None
    replies = [said.uuid for said in turn.said if said.role is Role.ASSISTANT]
    if following and replies and evidence[0].uuid == replies[-1] and agrees(following.users_prompt):
        return USER_AGREED
    if memory.kind not in _TESTED or not turn.has_edits:
        return ""
    command = passed_test(turn) or (passed_test(following) if following and not following.has_edits else "")
    return f"{TEST_PASSED}: {command}" if command else ""


def confirm_session(context: Context, session_id: str) -> None:
    """Confirm the provisional memories of a session for which ``why_confirmed`` gives a reason."""
    session = find_session(context.store, session_id)
    provisional = [
        memory
        for memory in memory_records.memories_of_session(context.store, session_id)
        if memory.status == Status.PROVISIONAL and not memory.suspect
    ]
    if session is None or not provisional:
        return
    turns = turns_of_session(context.store, session.id)
    for memory in provisional:
        evidence = memory_records.evidence_of(context.store, memory.id)
        reason = why_confirmed(memory, evidence, turns)
        if reason and context.change(
            memory,
            "confirm",
            reason,
            status=Status.ACTIVE,
            confirmations=memory.confirmations + 1,
            confidence=max(memory.confidence, 0.75),
            actor=Actor.TIDYING,
        ):
            context.add_line(f"confirm {memory.episode_id} ({reason})")


def confirm_recent(context: Context, since_ms: int) -> None:
    """Confirm memories of the sessions that have grown since the last run."""
    for session_id in memory_history.sessions_grown_since(context.store, since_ms):
        context.check_time()
        confirm_session(context, session_id)


# -- The steps that use a language model, within fixed rules: it decides which memories of a project end or repeat
# others, and redoes the local extractor's memories.

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
        # A memory that absorbed one may absorb or end others, too.
        latest: dict[int, Memory] = {}
        for relation in relations:
            newer, older = (latest.get(memory.id, memory) for memory in (relation.newer, relation.older))
            latest[newer.id] = _relate(context, newer, relation.action, older)


def _relate(context: Context, newer: Memory, action: str, older: Memory) -> Memory:
    """Apply what the model says about two memories, and return the newer one as stored afterwards."""
    if newer.holds_from_ms < older.holds_from_ms or not _is_about_the_same(newer, older) or older.suspect:
        return newer
    ending = ending_of(older, newer, Actor.MODEL)
    if action == "same":
        if ending is not Ending.ENDS or context.is_undone("archive", older):
            return newer
        came_back, confirmations = f"repeats what {older.episode_id} said", older.confirmations + 1
        return archive_repeated(context, newer, older, came_back, confirmations=confirmations, actor=Actor.MODEL)
    reason = ENDING_REASONS[action]
    if ending is Ending.CONTRADICTION:
        _note_contradiction(context, older, newer, f"{reason}: {newer.summary}")
    elif (
        ending is Ending.ENDS
        and not context.is_undone("supersede", older)
        and _supersede(context, older, newer, reason, actor=Actor.MODEL)
    ):
        context.add_line(f"supersede {older.episode_id} by {newer.episode_id} ({reason})")
    return newer


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
