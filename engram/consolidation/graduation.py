"""Maintain MEMORY.md: add proven memories, remove outdated ones, archive the oldest sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import TEST_PASSED, USER_AGREED
from engram.enums import Actor, Importance, Judgement, Scope, Source, Status, Voice
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.judgements import Usefulness, standing_judgements, used_ids, usefulness_of
from engram.models.memories.memory_history import JUDGEMENT_ACTIONS, Change, history_of, standing_steps
from engram.models.memories.memory_records import Memory
from engram.notes.daily_log import cut_sections, notes_lock, read_text, write_text
from engram.notes.note_index import ABOUT_THIS_FILE, MEMORY_MARK
from engram.settings import Settings
from engram.system.clock import DAY_MS, day_of
from engram.trust.display import fence_safe, one_line

# -- Decide which memories are proven enough for MEMORY.md, and why others are not. Pure.

#: Minimum number of sessions that must have used a memory.
MIN_USED_SESSIONS = 3
#: Age in days at which an important global memory from the user graduates even if it has not been used.
MIN_GLOBAL_DAYS = 14
#: Changes that confirm a memory if a user makes them.
_CONFIRMING_ACTIONS = ("edit", "pin", "confirm")


def confirmed_by(memory: Memory, history: Sequence[Change]) -> str:
    """Return how a person or a test confirmed a memory; "" if neither did."""
    if memory.voice in (Voice.USER, Voice.CHOSEN):
        return "the user said it" if memory.source == Source.AUTO else "the user saved it"
    for change in standing_steps(history):
        if change.action == "confirm" and change.reason.startswith((USER_AGREED, TEST_PASSED)):
            return change.reason
        if change.actor is Actor.USER and change.action in _CONFIRMING_ACTIONS:
            return f"the user's {change.action}"
    for change in standing_judgements(history)[-1:]:
        if change.actor is Actor.USER and change.action == JUDGEMENT_ACTIONS[Judgement.HELPFUL]:
            return "the user judged it helpful"
    return ""


def is_standing_rule(memory: Memory, now_ms: int) -> bool:
    """Return True for an important global memory that the user said or saved at least 14 days ago."""
    is_users = memory.voice == Voice.USER or (memory.source == Source.MANUAL and memory.voice != Voice.IMPORTED)
    is_old = now_ms - memory.created_at_ms >= MIN_GLOBAL_DAYS * DAY_MS
    return is_users and memory.importance == Importance.HIGH and memory.scope == Scope.GLOBAL and is_old


def why_not_proven(memory: Memory, uses: Usefulness, history: Sequence[Change], now_ms: int) -> str:
    """Return why a memory is not added to MEMORY.md; "" if it is.

    A memory is proven if it was used in three sessions and confirmed by a person or a test, or if it is a standing
    rule.
    """
    if memory.graduated_at_ms is not None:
        return "it already has a line"
    if memory.is_lowered:
        return "judged wrong"
    if memory.origin:
        return f"it is {memory.origin}'s"
    if memory.suspect:
        return f"suspect: {memory.suspect}"
    missing = [] if memory.status == Status.ACTIVE else [memory.status.told]
    if not is_standing_rule(memory, now_ms):
        if uses.used < MIN_USED_SESSIONS:
            missing.append(f"used in {uses.used} of {MIN_USED_SESSIONS} sessions")
        if not confirmed_by(memory, history):
            missing.append("not confirmed by the user or a test")
    return ", ".join(missing)


# -- Edit MEMORY.md, which has a line for each graduated memory under dated headings; sections beyond the limits are
# archived. Pure.

#: Maximum size of MEMORY.md, in lines and in bytes; Claude Code reads no more than this of such a file.
MAX_LINES = 200
MAX_BYTES = 25_000


def add_lines(text: str, heading: str, lines: Sequence[str]) -> str:
    """Return MEMORY.md with lines added under ``## heading``, except for lines that it already contains."""
    new = [line for line in lines if line not in text.splitlines()]
    if not new:
        return text
    text = text or f"# Memory\n\n{ABOUT_THIS_FILE}\n"
    parts = cut_sections(text)
    for number, part in enumerate(parts):
        if part.startswith(f"## {heading}\n"):
            parts[number] = part.rstrip("\n") + "\n" + "\n".join(new) + "\n\n"
            return "".join(parts).rstrip("\n") + "\n"
    return text.rstrip("\n") + f"\n\n## {heading}\n" + "\n".join(new) + "\n"


def within_limits(text: str) -> tuple[str, str]:
    """Return ``(kept, moved)``. The oldest ``##`` sections are moved until the rest fits; the text above them is kept.

    If the only section left is still too large, its first lines are moved.
    """
    parts = cut_sections(text)
    head, sections = parts[0], parts[1:]
    moved: list[str] = []
    while sections and not _fits(head + "".join(sections)):
        if len(sections) == 1:
            lines = sections[0].splitlines(keepends=True)
            if len(lines) < 3:
                break
            moved.append("".join(lines[:2]))
            sections[0] = lines[0] + "".join(lines[2:])
        else:
            moved.append(sections.pop(0))
    return head + "".join(sections), "".join(moved)


def _fits(text: str) -> bool:
    return len(text.splitlines()) <= MAX_LINES and len(text.encode()) <= MAX_BYTES


NOTE = "MEMORY.md"
#: Maximum size of MEMORY.md for it to be rewritten, in bytes.
_MAX_NOTE_BYTES = 1_000_000
#: Maximum length of a line, in characters.
_MAX_LINE_CHARACTERS = 240
#: Maximum length of a project's name, in characters.
_MAX_PROJECT_CHARACTERS = 60
#: Maximum number of memories in the list of those that do not graduate.
MAX_EXPLAINED = 20


def graduate(context: Context) -> None:
    """Add proven memories to MEMORY.md, at most ``graduate_limit`` per run."""
    now = context.store.now_ms()
    proven = [
        memory
        for memory, why_not in _candidates(context, now)
        if not why_not and not context.is_undone("graduate", memory)
    ]
    chosen = proven[: context.settings.graduate_limit]
    if not chosen:
        return
    with notes_lock(context.settings.places):
        _graduate(context, chosen, now)


def _candidates(context: Context, now: int) -> list[tuple[Memory, str]]:
    """Return the memories that were used or are standing rules, each with the reason why it doesn't graduate.

    Return "" if it does.
    """
    used = used_ids(context.store)
    memories = [
        memory
        for memory in context.current_memories()
        if memory.graduated_at_ms is None and (memory.episode_id in used or is_standing_rule(memory, now))
    ]
    uses = usefulness_of(context.store, [memory.episode_id for memory in memories])
    return [
        (memory, explain_graduation(context.store, memory, uses.get(memory.episode_id, Usefulness())))
        for memory in memories
    ]


def explain_graduation(store: Store, memory: Memory, uses: Usefulness) -> str:
    """Return why a memory is not added to MEMORY.md; "" if it is."""
    return why_not_proven(memory, uses, history_of(store, memory.episode_id), store.now_ms())


def not_graduating(context: Context) -> list[tuple[Memory, str]]:
    """Return the memories that do not graduate yet, each with the reason, those with the fewest reasons first."""
    waiting = [(memory, why_not) for memory, why_not in _candidates(context, context.store.now_ms()) if why_not]
    return sorted(waiting, key=lambda pair: len(pair[1].split(", ")))[:MAX_EXPLAINED]


def _graduate(context: Context, chosen: Sequence[Memory], now: int) -> None:
    text = _editable(context)
    # A memory that was changed or forgotten in the meantime must not get a line.
    chosen = [memory for memory in chosen if context.unchanged(context.store, memory) is not None]
    if text is None or not chosen:
        return
    for memory in chosen:
        context.add_line(f"graduate {memory.episode_id} into {NOTE}")
    if context.is_dry:
        return
    others = without_lines(text, [e.episode_id for e in chosen])
    for memory in chosen:
        others = add_lines(others, _heading(memory, now), [note_line(memory)])
    kept, moved = within_limits(others)
    _write(context, text, kept, moved)
    for memory in chosen:
        context.change(memory, "graduate", f"into {NOTE}", graduated_at_ms=now, actor=Actor.TIDYING)


def note_line(memory: Memory) -> str:
    holds_for = "every project" if memory.scope == Scope.GLOBAL else f"in {_project_of(memory)} only"
    said = fence_safe(one_line(memory.summary, _MAX_LINE_CHARACTERS))
    return f"- {day_of(memory.created_at_ms)}, {holds_for}: {said} <!-- {memory.episode_id} -->"


def _earlier_lines(store: Store, memory: Memory) -> set[str]:
    """Return the lines that a memory had before its summary or its scope was changed."""
    before = {str(step.before["summary"]) for step in history_of(store, memory.episode_id) if "summary" in step.before}
    earlier = (
        replace(memory, summary=summary, scope=scope) for summary in {memory.summary, *before} for scope in Scope
    )
    return set(map(note_line, earlier)) - {note_line(memory)}


def _heading(memory: Memory, now: int) -> str:
    """Return the heading for a memory: the month, and the project unless the memory is global."""
    month = day_of(now)[:7]
    return month if memory.scope == Scope.GLOBAL else f"{month}, {_project_of(memory)}"


def _project_of(memory: Memory) -> str:
    return one_line(memory.project, _MAX_PROJECT_CHARACTERS) or "one project"


def retire(context: Context) -> None:
    """Move the lines of superseded, archived and lowered memories from MEMORY.md to the archive."""
    with notes_lock(context.settings.places):
        text = _editable(context, is_quiet=True)
        if not text:
            return
        kept: list[str] = []
        moved: list[str] = []
        for line in text.splitlines(keepends=True):
            mark = MEMORY_MARK.search(line)
            memory = memory_records.find_memory(context.store, mark.group(1)) if mark else None
            why = _why_out(memory)
            if memory and why:
                context.add_line(f"take {memory.episode_id} out of {NOTE} ({why})")
                moved.append(line)
            elif memory and line.rstrip("\n") in _earlier_lines(context.store, memory):
                context.add_line(f"correct the line of {memory.episode_id} in {NOTE}")
                kept.append(note_line(memory) + "\n")
            else:
                kept.append(line)
        if "".join(kept) != text and not context.is_dry:
            _write(context, text, "".join(kept), "".join(["## No longer holds\n", *moved]) if moved else "")


def follow_graduation(store: Store, settings: Settings, episode_ids: Sequence[str]) -> None:
    """Update MEMORY.md after an undo: of the memories in ``episode_ids``, exactly the graduated ones have a line."""
    path = settings.places.notes / NOTE
    with notes_lock(settings.places):
        text = read_text(path)
        if not text or len(text.encode()) > _MAX_NOTE_BYTES:
            return
        memories = [memory_records.find_memory(store, episode_id) for episode_id in episode_ids]
        lined = [
            memory
            for memory in memories
            if memory is not None and memory.graduated_at_ms is not None and memory.is_current
        ]
        missing = [memory for memory in lined if f"<!-- {memory.episode_id} -->" not in text]
        changed = without_lines(text, list(set(episode_ids) - {memory.episode_id for memory in lined}))
        for memory in missing:
            changed = add_lines(changed, _heading(memory, memory.graduated_at_ms or 0), [note_line(memory)])
        if changed != text:
            write_text(path, changed)


def without_lines(text: str, ids: Sequence[str]) -> str:
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if not any(f"<!-- {episode_id} -->" in line for episode_id in ids)
    )


def _why_out(memory: Memory | None) -> str:
    """Return why a memory's line no longer belongs in MEMORY.md; "" if it does, or if the memory is unknown."""
    if memory is None:
        return ""
    if not memory.status.is_current:
        return memory.status
    return "lowered" if memory.is_lowered else ""


def _editable(context: Context, *, is_quiet: bool = False) -> str | None:
    text = context.read_note(NOTE)
    if text is None or len(text.encode()) > _MAX_NOTE_BYTES:
        if not is_quiet:
            context.add_line(
                f"{NOTE} cannot be rewritten (it is too large, a link, unreadable or not UTF-8); nothing graduated"
            )
        return None
    return text


def _write(context: Context, before: str, kept: str, moved: str) -> None:
    """Write MEMORY.md, and append the moved lines to the archive of the current month."""
    archive = f"archive/{day_of(context.store.now_ms())[:7]}.md"
    old = context.read_note(archive) if moved else None
    if moved and old is None:
        context.add_line(f"{archive} cannot be rewritten; {NOTE} is left unchanged")
        return
    context.will_write(NOTE, before)
    if moved:
        context.will_write(archive, old or "")
        joint = "" if not old or old.endswith("\n") else "\n"
        context.write_note(archive, f"{old}{joint}{moved}")
    context.write_note(NOTE, kept)
