"""Apply the current rules to memories that earlier versions kept or made global, and to text that they ignored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest

from engram.consolidation.step_context import Context
from engram.enums import Actor, Scope, Source, Status, Voice
from engram.extraction.candidate import Candidate, ExtractionContext
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.rule_endings import takings_back
from engram.extraction.user_rules import (
    Judgement,
    RuleRefusal,
    judge,
    lays_down_for_all_projects,
    scope_of,
    typed_prompt,
    typed_texts,
)
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories.judgements import is_settled_by_hand
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_history import add_run, close_run
from engram.models.memories.memory_records import Evidence, Memory, evidence_of, find_memory
from engram.models.sessions.reading_progress import unknown_elements
from engram.models.sessions.recent_work import texts_of_evidence
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import StoredTurn, load_turn_row, turns_of_session
from engram.models.sessions.turn_changes import take_for_prompt
from engram.system import process_limits
from engram.text.words import content_words, prefixes
from engram.transcripts.message_elements import is_persons_element, persons_elements, typed_words
from engram.transcripts.registry import speaker_at
from engram.transcripts.speaker import Speaker
from engram.transcripts.turns import Role, Turn
from engram.trust.display import number_of
from engram.trust.voice import typed_text

#: Earlier extractors, which had different rules. When the rules change a lot, add the previous extractor and increase
#: the version.
EARLIER_EXTRACTORS = ("local-1", "local-2")
JUDGE_VERSION = 7
#: Key in ``meta`` of the version with which all memories were last judged.
_JUDGED_BY = "rules_judged_by"
#: Key in ``meta`` of ``Picked``, as JSON.
_PICKED = "picked_memories"
#: Reason for archiving a memory that the current extractor would not make.
NO_LONGER_KEPT = "rules picked it; without a language model, only certain memories are kept today"
#: Number of memories archived in one transaction.
_AT_A_TIME = 200
#: Maximum number of memories to propose for a turn for comparison with stored ones.
MAX_OF_TURN = 60
#: Key in ``meta`` of the names of elements containing a person's words with which all text was last judged.
_ELEMENTS_JUDGED_BY = "elements_judged_by"
#: Minimum share of a memory's words that a sentence must contain to be taken for its source.
_MIN_SHARE = 0.5
#: Reasons for archiving a rule: no sentence is worded as one, or the user did not send it.
NOT_WORDED = "it is not worded as a rule"
BY_PROGRAM = "a program or another agent sent it"


@dataclass(frozen=True, slots=True)
class _Verdict:
    why_not: str = ""
    scope: Scope = Scope.PROJECT


def rejudge_rules(context: Context) -> None:
    """Archive memories that are not the user's rules, and restrict those not meant for all projects to their own.

    This runs once per ``JUDGE_VERSION``. Memories that a person edited, pinned, judged or restored are left alone. Like
    other tidying, the changes are not sent to a hub.
    """
    if get_meta(context.store, _JUDGED_BY) == str(JUDGE_VERSION):
        return
    for memory in context.current_memories():
        context.check_time()
        if not _is_in_question(memory) or is_settled_by_hand(context.store, memory):
            continue
        verdict = _judge_again(context.store, memory)
        if verdict.why_not and not context.is_undone("archive", memory):
            reason = f"not a rule of yours: {verdict.why_not}"
            if context.change(memory, "archive", reason, actor=Actor.TIDYING, status=Status.ARCHIVED):
                context.add_line(f"archive {memory.episode_id} ({reason}): {memory.summary}")
        elif not verdict.why_not and verdict.scope != memory.scope and not context.is_undone("rescope", memory):
            reason = "you did not say this about all projects"
            if context.change(memory, "rescope", reason, actor=Actor.TIDYING, scope=verdict.scope):
                context.add_line(f"keep {memory.episode_id} in its project ({reason}): {memory.summary}")
    if not context.is_dry:
        with context.store.transaction() as tx:
            put_meta(tx, _JUDGED_BY, str(JUDGE_VERSION))


@dataclass(frozen=True, slots=True)
class Picked:
    """The progress in archiving memories that earlier versions extracted by rules and the current version would not."""

    #: Number of memories that the next consolidation will archive; 0 once it has.
    waiting: int
    archived: int = 0
    #: The run that archived them, which can be undone; 0 before that.
    run_id: int = 0


def picked_memories(store: Reader) -> Picked | None:
    """Return the progress in archiving earlier versions' memories; None if there were none to archive."""
    stored = get_meta(store, _PICKED)
    found = None if stored is None else Picked(**json.loads(stored))
    return found if found is not None and (found.waiting or found.archived) else None


def archive_picked(context: Context) -> None:
    """Archive, in a separate run, memories from earlier local extractors that the current one would not make.

    The first consolidation that the worker starts only counts them, so that status and preview can show them; the next
    one, and any that a person starts, archives them. Memories that a person edited, pinned, judged, opened or restored
    are kept, as are graduated ones and the user's rules (see ``rejudge_rules``). The changes are not sent to a hub.
    """
    known = picked_memories(context.store)
    if get_meta(context.store, _PICKED) is not None and (known is None or not known.waiting):
        return
    unkept = list(_unkept(context))
    lines = [f"archive {memory.episode_id} ({NO_LONGER_KEPT}): {memory.summary}" for memory in unkept]
    if context.is_dry:
        for line in lines:
            context.add_line(line)
        return
    if unkept and known is None and not context.is_forced:
        with context.store.transaction() as tx:
            put_meta(tx, _PICKED, json.dumps(asdict(Picked(waiting=len(unkept)))))
        context.add_line(
            f"{number_of(len(unkept), 'memory')} picked by rules to archive next time: engram consolidate --preview"
        )
        return
    with context.store.transaction() as tx:
        run_id = add_run(tx, "consolidate")
    archived: list[str] = []
    for start in range(0, len(unkept), _AT_A_TIME):
        process_limits.pause()
        with context.store.transaction() as tx:
            part = zip(unkept[start : start + _AT_A_TIME], lines[start:], strict=False)
            archived += [line for memory, line in part if _archive(tx, memory, run_id)]
    with context.store.transaction() as tx:
        close_run(tx, run_id, archived)
        put_meta(tx, _PICKED, json.dumps(asdict(Picked(0, len(archived), run_id if archived else 0))))
    if archived:
        context.add_line(f"archive {number_of(len(archived), 'memory')} picked by rules (run {run_id})")


def _archive(tx: Tx, memory: Memory, run_id: int) -> bool:
    """Archive a memory unless it has changed since it was read; return True if it was archived."""
    now = find_memory(tx, memory.episode_id)
    if now is None or now.revision != memory.revision:
        return False
    change_memory(tx, now, "archive", NO_LONGER_KEPT, run_id=run_id, actor=Actor.TIDYING, status=Status.ARCHIVED)
    return True


def _unkept(context: Context) -> Iterator[Memory]:
    """Yield the memories from earlier local extractors that the current one would not make from the same turns."""
    by_session: dict[str, list[Memory]] = {}
    for memory in context.current_memories():
        if (
            _is_picked(memory)
            and not context.is_undone("archive", memory)
            and not is_settled_by_hand(context.store, memory)
        ):
            by_session.setdefault(memory.session_id, []).append(memory)
    for session_id, memories in by_session.items():
        process_limits.pause()
        session = find_session(context.store, session_id)
        turns = [] if session is None else turns_of_session(context.store, session.id)
        # Without the session's turns, nothing can be compared.
        proposed = _proposed([stored.turn for stored in turns]) if turns else None
        yield from (memory for memory in memories if proposed is not None and not _is_kept(context, memory, proposed))


def _is_picked(memory: Memory) -> bool:
    is_earlier = memory.is_by_rules and memory.extractor != LocalExtractor.name
    is_used = memory.access_count > 0 or memory.graduated_at_ms is not None
    return is_earlier and not (memory.origin or memory.is_users_rule or is_used)


def _proposed(turns: Sequence[Turn]) -> list[Candidate]:
    return LocalExtractor().propose(turns, ExtractionContext(session_cap=len(turns) * MAX_OF_TURN))


def _is_kept(context: Context, memory: Memory, proposed: Sequence[Candidate]) -> bool:
    """Return True if a memory is proposed again, with an entry of its evidence and in similar words."""
    cited = {entry.uuid for entry in evidence_of(context.store, memory.id) if entry.uuid}
    said = prefixes(content_words(memory.summary))
    return any(
        cited & set(candidate.evidence)
        and len(said & prefixes(content_words(candidate.summary))) >= _MIN_SHARE * max(1, len(said))
        for candidate in proposed
    )


def rejudge_elements(context: Context) -> None:
    """Turn text into prompts if its elements now count as a person's words; runs once per set of elements."""
    known = persons_elements()
    if get_meta(context.store, _ELEMENTS_JUDGED_BY) == known:
        return
    for name, turn_ids in unknown_elements(context.store).items():
        if not is_persons_element(name):
            continue
        context.add_line(f"treat {number_of(len(turn_ids), 'text')} in <{name}> as a person's words")
        for turn_id in turn_ids if not context.is_dry else ():
            context.check_time()
            with context.store.transaction() as tx:
                take_for_prompt(tx, turn_id)
    if not context.is_dry:
        with context.store.transaction() as tx:
            put_meta(tx, _ELEMENTS_JUDGED_BY, known)


def _is_in_question(memory: Memory) -> bool:
    """Return True for a rule from an earlier local extractor, and for any memory that an extractor made global."""
    is_made = memory.source == Source.AUTO and not memory.origin
    # Memories without a project come from a folder that the settings make global.
    is_global = memory.scope == Scope.GLOBAL and memory.project_id is not None
    return is_made and (_is_earlier_rule(memory) or is_global)


def _is_earlier_rule(memory: Memory) -> bool:
    return memory.is_users_rule and memory.extractor in EARLIER_EXTRACTORS


def _judge_again(store: Store, memory: Memory) -> _Verdict:
    """Judge a memory by the prompts in its evidence, or by its own words if the prompts are gone."""
    if _is_by_program(store, memory):
        return _Verdict(why_not=BY_PROGRAM if _is_earlier_rule(memory) else "")
    if not _is_earlier_rule(memory):
        cited = [typed_text(text.text) for text in texts_of_evidence(store, memory.id) if text.role is Role.USER]
        is_global = any(lays_down_for_all_projects(typed, memory.summary, memory.project) for typed in cited)
        return _Verdict(scope=Scope.GLOBAL if is_global and memory.voice == Voice.USER else Scope.PROJECT)
    found = _closest(memory.summary, _judgements(store, memory))
    if found is None:
        return _Verdict(why_not=NOT_WORDED)
    sessions = {entry.session_id for entry in evidence_of(store, memory.id) if entry.session_id}
    if found.refusal is RuleRefusal.ORDER and (len(sessions) > 1 or memory.confirmations):
        found = replace(found, refusal=None)
    if found.refusal is not None:
        return _Verdict(why_not=found.refusal)
    return _Verdict(scope=min(found.scope, scope_of(memory.summary, memory.project), key=_reach))


def _is_by_program(store: Store, memory: Memory) -> bool:
    """Return True if programs sent all prompts in the evidence; earlier versions mistook them for the user's."""
    cited = evidence_of(store, memory.id)
    uuids = {entry.uuid for entry in cited}
    speakers = {
        speaker_at(stored.turn.agent, stored.path, said.offset, said.length)
        if typed_words(said.text)
        else Speaker.HARNESS
        for stored in _cited_turns(store, cited)
        for said in stored.turn.users_texts
        if said.uuid in uuids
    }
    return bool(speakers) and Speaker.PERSON not in speakers


def _cited_turns(store: Store, cited: Sequence[Evidence]) -> list[StoredTurn]:
    ids = dict.fromkeys(entry.turn_id for entry in cited if entry.turn_id)
    return [stored for turn_id in ids if (stored := load_turn_row(store, turn_id)) is not None]


def _reach(scope: Scope) -> int:
    return int(scope == Scope.GLOBAL)


def _judgements(store: Store, memory: Memory) -> list[Judgement]:
    judged: list[Judgement] = []
    for stored in _cited_turns(store, evidence_of(store, memory.id)):
        judged += _of_turn(store, stored, memory)
    return judged or judge(memory.summary, project=memory.project)


def _of_turn(store: Store, stored: StoredTurn, memory: Memory) -> list[Judgement]:
    turns = turns_of_session(store, stored.session_ref)
    later = [other.turn for other in turns[[other.id for other in turns].index(stored.id) + 1 :]]
    following = typed_prompt(later[0] if later else None)
    judged = []
    for typed in typed_texts(stored.turn):
        judged += judge(typed, project=memory.project, following=following)
    takings = [
        taking
        for turn, after in zip_longest(later, later[1:])
        for typed in typed_texts(turn)
        for taking in takings_back(typed, following=typed_prompt(after))
    ]
    return [
        replace(found, refusal=RuleRefusal.TAKEN_BACK)
        if any(taking.is_about(found.sentence) for taking in takings)
        else found
        for found in judged
    ]


def _closest(summary: str, judged: Sequence[Judgement]) -> Judgement | None:
    """Return the judgement on the sentence that a memory was made from; None if none matches."""
    said = prefixes(content_words(summary))
    best, best_share = None, 0.0
    for found in judged:
        # Words in other scripts are not compared.
        share = (
            len(said & prefixes(content_words(found.sentence))) / len(said)
            if said
            else float(found.sentence in summary)
        )
        if share >= _MIN_SHARE and share > best_share:
            best, best_share = found, share
    return best
