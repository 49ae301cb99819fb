"""Change memories on request by the user or an agent: save, replace, edit, pin, restore, trust."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from engram.enums import Actor, Importance, Judgement, Kind, Scope, Source, Status, Voice
from engram.errors import BadRequest, Conflict, NotFound
from engram.extraction.user_rules import RuleRefusal, judge
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories import memory_changes, memory_records, watermarks
from engram.models.memories.judgements import (
    Ending,
    ending_of,
    is_kept_by_hand,
    is_noted,
    judgement_of,
    note_contradiction,
    standing_judgements,
)
from engram.models.memories.memory_history import TAKE_BACK, add_run, close_run, history_of
from engram.models.memories.memory_records import MAX_SUMMARY_CHARACTERS, Evidence, Memory
from engram.models.memories.memory_undo import restart_ageing
from engram.models.memories.tombstones import is_text_forgotten
from engram.models.search.memory_lists import current_memories
from engram.models.sessions.passage_rows import is_quotation_id
from engram.models.sessions.sessions import find_session, session_ids_beginning_with
from engram.text.replacements import names_a_rival, rivals_in
from engram.text.titles import clean_questions
from engram.text.words import UNSPACED_LETTERS, has_words
from engram.trust.suspicion import why_any_suspect

#: Part of a message: what can be done with a quotation.
QUOTATION_VERBS = "It can be expanded, judged and forgotten; what it says can be saved as a memory"
#: Maximum length of a saved text, in characters.
MAX_SAVED_CHARACTERS = 20_000
#: Maximum length of a summary that is made from a text, in characters.
MAX_SENTENCE_CHARACTERS = 240
#: Kinds that a saved memory may have.
SAVED_KINDS = (Kind.DECISION, Kind.PREFERENCE, Kind.FIX, Kind.FACT, Kind.DEAD_END)

#: Maximum length of the reason for a judgement or a correction, in characters.
MAX_WHY_CHARACTERS = 500
#: A text of this many characters is compared with the beginnings of sessions' ids.
_MIN_BEGINNING = 4

Redact = Callable[[str], str]


def save_memory(
    store: Store,
    content: str,
    redact: Redact,
    *,
    actor: Actor,
    scope: Scope = Scope.PROJECT,
    importance: Importance = Importance.NORMAL,
    project_id: int | None = None,
    session_id: str = "",
    supersedes: str | None = None,
    is_pinned: bool = False,
    summary: str | None = None,
    kind: Kind | None = None,
    questions: Sequence[str] = (),
    episode_id: str = "",
) -> Memory:
    """Store a text as a memory, unchanged except for secrets.

    An agent's text is checked (see ``judged``). If a current memory with the same text, scope, voice and importance
    exists, it is returned and nothing is stored.

    Args:
        content: the text, 1 to 20,000 characters; its first sentence or line becomes the summary unless one is given.
        actor: the user or an agent; determines the memory's voice.
        scope: ``project``, which needs ``project_id``, or ``global``.
        supersedes: id of the memory to replace. The new one must be visible wherever that one is. If an agent tries to
            replace what the user pinned, saved, said or chose, a contradiction is recorded instead. The replacement is
            a run, which can be undone.
        kind: one of ``SAVED_KINDS``; by default a fact or, for a rule from the user ("From now on …"), the kind that
            the extraction rules assign.
        questions: questions that the text answers, worded differently, which searches also match. At most two are
            stored.
        episode_id: the id of the new memory; by default a new id. If a memory with another id is returned, it existed
            already.

    Raises:
        BadRequest: a value can't be used.
        NotFound: there is no memory ``supersedes``.
    """
    if kind is not None and kind not in SAVED_KINDS:
        raise BadRequest(f"a saved memory can't be of kind {kind}; choose one of {', '.join(SAVED_KINDS)}")
    text = clean_content(content, redact)
    kind = kind or (kind_of_saved(text) if actor is Actor.USER else Kind.FACT)
    if scope == Scope.PROJECT and project_id is None:
        raise BadRequest("a memory with scope project needs a project: pass a folder (cwd), or use scope global")
    made = Memory(
        episode_id=episode_id or memory_records.new_memory_id(),
        kind=kind,
        summary=clean_summary(summary, redact) if summary else first_sentence(text),
        content=text,
        session_id=session_id,
        project_id=project_id,
        scope=scope,
        importance=importance,
        source=Source.MANUAL,
        voice=voice_of(actor),
        confidence=1.0,
        quality=1.0,
        is_pinned=is_pinned,
        questions=clean_questions(questions, redact),
        extractor="manual",
        valid_from_ms=store.now_ms(),
    )
    made = judged(store, made, actor)
    with store.transaction() as tx:
        old = None if supersedes is None else require_memory(store, supersedes)
        if old is None and (kept := _kept_alike(tx, made)) is not None:
            return kept
        if old is None:
            made = memory_changes.add_memory(tx, made, _said_in(tx, made), actor=actor, action="save")
            note_rivals(tx, made, actor=Actor.TIDYING)
        elif not made.suspect and not memory_records.may_stand_for(made, old):
            raise BadRequest(
                f"{old.episode_id} is visible where the new memory would not be: save it with scope global, or without "
                "supersedes"
            )
        else:
            replace_memory(tx, old, made, actor=actor, action="save", reason="replaced by hand")
        return require_memory(tx, made.episode_id)


#: Fields that a saved memory must share with an existing one to count as the same.
_ALIKE = ("content", "scope", "voice", "importance", "is_pinned", "is_lowered", "suspect", "questions", "source")


def _kept_alike(store: Reader, made: Memory) -> Memory | None:
    """Return a current memory that is the same as the one being saved; None if there is none."""
    known = memory_records.memories_of_summary(store, made.project_id, made.kind, made.summary)
    alike = (memory for memory in known if all(getattr(memory, name) == getattr(made, name) for name in _ALIKE))
    return next((memory for memory in alike if memory.is_current), None)


def kind_of_saved(text: str) -> Kind:
    """Return the kind of a text that the user saves: that of a rule if the first sentence is one, otherwise a fact.

    What the user saves is meant to last, so even an order for one occasion counts as a rule.
    """
    judged_sentences = judge(first_sentence(text))
    rule = next((sentence for sentence in judged_sentences if sentence.refusal in (None, RuleRefusal.ORDER)), None)
    return Kind.FACT if rule is None else rule.kind


def replace_memory(tx: Tx, old: Memory, new: Memory, *, actor: Actor, action: str, reason: str) -> tuple[Memory, int]:
    """Store a new memory that replaces an old one; return it, and the number of a contradiction or 0.

    If the actor may not end the old memory (``ending_of``), the new one is provisional, and a contradiction is recorded
    for the user to decide.
    """
    run_id = add_run(tx, "save")
    evidence = _said_in(tx, new)
    if ending_of(old, new, actor) is not Ending.ENDS:
        new = dataclasses.replace(new, status=Status.PROVISIONAL, is_pinned=False)
        made = memory_changes.add_memory(tx, new, evidence, actor=actor, action=action, reason=reason, run_id=run_id)
        number = note_contradiction(tx, old.episode_id, made.episode_id, reason)
        close_run(tx, run_id, [f"contradiction between {old.episode_id} and {made.episode_id}"])
        return made, number
    made = memory_changes.add_memory(tx, new, evidence, actor=actor, action=action, reason=reason, run_id=run_id)
    memory_changes.supersede(tx, old, made, reason, actor=actor, run_id=run_id)
    close_run(tx, run_id, [f"supersede {old.episode_id} by {made.episode_id}"])
    return made, 0


def _said_in(tx: Tx, made: Memory) -> list[Evidence]:
    """Return evidence that refers to a saved memory's session, if its transcript has not been read yet.

    It keeps the memory from being shown in the session in which it was saved.
    """
    is_known = not made.session_id or find_session(tx, made.session_id) is not None
    return [] if is_known else [Evidence("", made.session_id)]


def judged(store: Reader, made: Memory, actor: Actor) -> Memory:
    """Check a new memory that an agent may be saving; return it as it may be stored.

    A memory that reads like a planted instruction is marked for the user to review, and is neither pinned nor global.

    Raises:
        BadRequest: the user has forgotten the text, or it is suspect and doesn't belong to a project, in which it could
            wait for review.
    """
    if actor is Actor.USER:
        return made
    check_not_forgotten(store, made.content, made.project_id, summary=made.summary)
    reason = why_any_suspect((made.summary, made.content, *made.facts, *made.questions), made.entities)
    if reason is None:
        return made
    if made.project_id is None:
        raise BadRequest(f"it reads like {reason}: state the facts and the reason instead, or let the user save it")
    return dataclasses.replace(made, suspect=reason, is_pinned=False, scope=Scope.PROJECT)


def check_not_forgotten(store: Reader, content: str, project_id: int | None, *, summary: str = "") -> None:
    """Raise BadRequest if a memory with this text was forgotten, so that no agent may save it again."""
    if is_text_forgotten(store, (content, summary or first_sentence(content)), project_id):
        raise BadRequest(
            "a memory with this text was forgotten, so an agent can't save it again; the user can, with `engram save`"
        )


def voice_of(actor: Actor) -> Voice:
    return Voice.USER if actor is Actor.USER else Voice.AGENT


def clean_content(text: str, redact: Redact) -> str:
    """Return a text as it is stored. Raises BadRequest if it contains no words or is too long."""
    clean = redact(text.replace("\0", "")).strip()
    if not has_words(clean):
        raise BadRequest("the text has no words: say what the memory should say")
    if len(clean) > MAX_SAVED_CHARACTERS:
        raise BadRequest(f"a memory has at most {MAX_SAVED_CHARACTERS:,} characters, this one {len(clean):,}")
    return clean


def clean_summary(text: str, redact: Redact) -> str:
    """Return a summary as it is stored. Raises BadRequest if it contains no words or is too long."""
    clean = clean_content(text, redact)
    if len(clean) > MAX_SUMMARY_CHARACTERS:
        raise BadRequest(
            f"a summary has at most {MAX_SUMMARY_CHARACTERS} characters, this one {len(clean):,}; "
            "put the rest in the content"
        )
    return clean


def clean_reason(why: str, redact: Redact) -> str:
    """Return a reason as it is stored. Raises BadRequest if it contains no words or is too long."""
    reason = " ".join(redact(why.replace("\0", "")).split())
    if not has_words(reason) or len(reason) > MAX_WHY_CHARACTERS:
        raise BadRequest(f"give a reason in words, of at most {MAX_WHY_CHARACTERS} characters")
    return reason


def edit_memory(
    store: Store,
    episode_id: str,
    redact: Redact,
    *,
    actor: Actor,
    summary: str | None = None,
    content: str | None = None,
    importance: Importance | None = None,
    scope: Scope | None = None,
    seen: str | None = None,
) -> Memory:
    """Change a memory's text, importance or scope; its history records the old values.

    The summary and the content are kept consistent: if new content doesn't contain the summary, its first sentence
    becomes the summary; a new summary replaces the old one in the content.

    Args:
        seen: the ``edit_stamp`` of the memory that the user edited; None if it can't have changed since.

    Raises:
        NotFound: there is no such memory.
        BadRequest: there is nothing to change, or a value can't be used.
        Conflict: the values have changed since the user saw them.
    """
    changes: dict[str, Any] = {
        "summary": None if summary is None else clean_summary(summary, redact),
        "content": None if content is None else clean_content(content, redact),
        "importance": importance,
        "scope": scope,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if not changes:
        raise BadRequest("say what to change: the summary, content, importance or scope")
    with store.transaction() as tx:
        memory = require_memory(store, episode_id)
        if seen is not None and seen != edit_stamp(memory):
            raise Conflict(
                "the memory has changed since the form was opened. Nothing was saved: copy your text, and edit again"
            )
        if memory.origin and changes.keys() & {"summary", "content"}:
            raise BadRequest(f"it is {memory.origin}'s: `engram correct {episode_id}` replaces it with your own words")
        if changes.get("scope") == Scope.PROJECT and memory.project_id is None:
            raise BadRequest("this memory does not belong to a project, so its scope remains global")
        changes = _in_step(memory, changes)
        return memory_changes.change_memory(tx, memory, "edit", "by hand", **changes, actor=actor)


def edit_stamp(memory: Memory) -> str:
    """Return a short text that identifies the values that an edit can change; it differs if one of them does."""
    values = (memory.summary, memory.content, memory.importance.value, memory.scope.value)
    return hashlib.sha256("\0".join(values).encode("utf-8", "replace")).hexdigest()[:16]


def _in_step(memory: Memory, changes: dict[str, Any]) -> dict[str, Any]:
    """Return an edit, with changes added that keep the summary and the content consistent."""
    summary, content = changes.get("summary"), changes.get("content")
    if content and summary is None and not _says(content, memory.summary):
        return changes | {"summary": first_sentence(content)}
    if summary and content is None:
        # Whole words only: "Use uv" is not part of "Use uvicorn". In scripts without spaces, any letter may follow.
        letter = rf"[^\W{UNSPACED_LETTERS}]"
        now = re.sub(rf"(?<!{letter}){re.escape(memory.summary)}(?!{letter})", lambda _: summary, memory.content)
        return changes | {"content": now[:MAX_SAVED_CHARACTERS]}
    return changes


def _says(content: str, summary: str) -> bool:
    """Return True if the content contains the summary, ignoring case, white space and a truncated end."""
    return " ".join(summary.split()).rstrip(".…").lower() in " ".join(content.split()).lower()


def pin_memory(store: Store, episode_id: str, *, actor: Actor, is_pinned: bool = True) -> Memory:
    """Pin a memory, so that it never ages and comes first in every briefing, or unpin it.

    If that changes nothing, nothing is recorded, so that the last change can still be undone.

    Raises:
        NotFound: there is no such memory.
        BadRequest: only the user may do this: pin a suspect memory, or unpin what no agent pinned.
    """
    with store.transaction() as tx:
        memory = require_memory(store, episode_id)
        if memory.is_pinned == is_pinned:
            return memory
        if is_pinned and memory.suspect and actor is not Actor.USER:
            raise BadRequest(f"{episode_id} is suspect ({memory.suspect}), so only the user can pin it")
        if not is_pinned and actor is Actor.AGENT and not _is_pinned_by_agent(tx, episode_id):
            raise BadRequest(
                f"{episode_id} was pinned by the user, and stays pinned; ask the user, who can run "
                f"`engram pin {episode_id} --off`"
            )
        return memory_changes.change_memory(
            tx, memory, "pin" if is_pinned else "unpin", "by hand", is_pinned=is_pinned, actor=actor
        )


def _is_pinned_by_agent(store: Reader, episode_id: str) -> bool:
    """Return True if an agent was the last to pin a memory, perhaps when it saved the memory."""
    steps = history_of(store, episode_id)
    pins = [*steps[:1], *(step for step in steps if step.after.get("is_pinned"))]
    return bool(pins) and pins[-1].actor is Actor.AGENT


def require_memory(store: Reader, episode_id: str) -> Memory:
    """Return the memory with an id.

    Raises:
        BadRequest: it is the id of a quotation, which can't be changed, or of a session.
        NotFound: there is no such memory.
    """
    if is_quotation_id(episode_id):
        raise BadRequest(f"{episode_id} is a quotation: what was said can't be changed. {QUOTATION_VERBS}")
    memory = memory_records.find_memory(store, episode_id) if memory_records.is_memory_id(episode_id) else None
    if memory is None:
        refuse_session_id(store, episode_id)
        what, listed = ("quotation", "search") if episode_id.startswith("q_") else ("memory", "timeline")
        raise NotFound(f"there is no {what} {episode_id[:40]!r}; recall and {listed} print the ids that exist")
    return memory


def refuse_session_id(store: Reader, text: str) -> None:
    """Raise BadRequest if a text is the id of a session, or its beginning of at least ``_MIN_BEGINNING`` characters."""
    if len(text) < _MIN_BEGINNING:
        return
    if session_ids := session_ids_beginning_with(store, text, limit=2):
        shown = session_ids[0] if len(session_ids) == 1 else text
        raise BadRequest(f"that is the id of a session; `engram sessions {shown}` shows it")


def first_sentence(text: str) -> str:
    """Return the first line or sentence that contains words, cut to ``MAX_SENTENCE_CHARACTERS``."""
    lines = [line.strip(" #*->\t") for line in text.splitlines()]
    first = next(filter(has_words, lines), "")
    if len(first) <= MAX_SENTENCE_CHARACTERS:
        return first
    cut = first[:MAX_SENTENCE_CHARACTERS]
    stop = max(cut.rfind(". "), cut.rfind("; "))
    return cut[: stop + 1] if stop > MAX_SENTENCE_CHARACTERS // 3 else cut.rsplit(" ", 1)[0] + "…"


# -- Rules that name rivals, such as npm and pnpm: the user decides between them.


def note_rivals(tx: Tx, memory: Memory, *, actor: Actor) -> list[str]:
    """Record a contradiction of a rule with each rule of the same place that names a rival; return a line about each.

    This applies to the user's rules and to what was pinned or saved by hand. Neither ends, because nobody said so.
    """
    if not may_rival(memory):
        return []
    others = [other for other in current_memories(tx, memory.project_id) if may_rival(other)]
    return [line for pair in rivals_of(memory, others, actor) if (line := note_rival(tx, *pair))]


def may_rival(memory: Memory) -> bool:
    """Return True for a rule that is believed and names anything that has rivals."""
    is_rule = memory.is_users_rule or is_kept_by_hand(memory)
    is_believed = memory.is_current and not memory.is_lowered and not memory.suspect
    return is_rule and is_believed and names_a_rival(memory.summary)


def rivals_of(memory: Memory, others: Iterable[Memory], actor: Actor) -> Iterator[tuple[Memory, Memory, str]]:
    """Yield the older rule, the newer one and why both can't be followed, for each other rule of the same place.

    Args:
        others: rules for which ``may_rival`` is true.
    """
    for other in others:
        if (other.project_id, other.scope) != (memory.project_id, memory.scope) or other.id == memory.id:
            continue
        older, newer = sorted((memory, other), key=lambda e: (e.holds_from_ms, e.id))
        rivals = rivals_in(newer.summary, older.summary)
        if rivals and ending_of(older, newer, actor, is_inferred=True) is Ending.CONTRADICTION:
            yield older, newer, f"{rivals[0]} and {rivals[1]} are used for the same"


def note_rival(store: Reader, older: Memory, newer: Memory, reason: str) -> str:
    """Record a contradiction in a transaction, and only look for it outside one; return a line if it is a new one."""
    ids = (older.episode_id, newer.episode_id)
    is_new = note_contradiction(store, *ids, reason) if isinstance(store, Tx) else not is_noted(store, ids)
    return f"contradiction between {ids[0]} and {ids[1]} ({reason})" if is_new else ""


# -- Restore a memory from the archive.

#: Action recorded for a memory that was restored from the archive.
REVIVE = "revive"


def revive_memory(store: Store, episode_id: str, *, actor: Actor) -> Memory:
    """Make an archived memory current again. Its ageing restarts, and consolidation doesn't archive it again.

    If it had been merged into another memory, both are current then. If it had been judged outdated, this withdraws the
    judgement.

    Raises:
        NotFound: there is no such memory.
        BadRequest: the memory is not archived.
    """
    with store.transaction() as tx:
        memory = require_memory(tx, episode_id)
        if memory.status is not Status.ARCHIVED:
            raise BadRequest(f"{episode_id} is {memory.status.told}, not archived")
        restart_ageing(tx, episode_id)
        watermarks.note_undone(tx, [("archive", episode_id)])
        changes: dict[str, Any] = {"status": Status.ACTIVE, "superseded_by": "", "valid_to_ms": None, "weight": 1.0}
        standing = standing_judgements(history_of(tx, episode_id))
        if standing and judgement_of(standing[-1]) is Judgement.OUTDATED:
            step = standing[-1]
            reason = f"judged {Judgement.OUTDATED}: {step.reason}"
            return memory_changes.change_alone(tx, memory, TAKE_BACK, reason, actor=actor, undoes=step.id, **changes)
        return memory_changes.change_memory(tx, memory, REVIVE, "by hand", actor=actor, **changes)


# -- Clear a memory's suspect flag.


def trust_memory(store: Store, episode_id: str, *, actor: Actor) -> Memory:
    """Allow a suspect memory to be shown like any other. Only a person may do this, after reading the memory.

    Raises:
        NotFound: there is no such memory.
        BadRequest: the memory is not suspect.
    """
    with store.transaction() as tx:
        memory = require_memory(tx, episode_id)
        if not memory.suspect:
            raise BadRequest(f"{episode_id} is not suspect; `engram review` lists what needs a decision")
        return memory_changes.change_memory(tx, memory, "trust", f"reviewed: {memory.suspect}", actor=actor, suspect="")
