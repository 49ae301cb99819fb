"""Apply what an extraction says of existing memories: every change is logged in one run, which can be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from engram.enums import Actor, Importance, Refusal, Scope, Status, Voice
from engram.extraction.candidate import ENDING_ACTIONS, Candidate
from engram.extraction.keep import Kept
from engram.models.contradictions import ENDING_REASONS, Ending, ending_of, is_kept_by_hand, note_contradiction
from engram.models.episode_changes import change_episode
from engram.models.episode_evidence import add_evidence
from engram.models.episodes import Episode, Evidence, find_episode
from engram.models.runs import add_run, close_run
from engram.models.transaction import Tx
from engram.models.watermarks import undone


@dataclass(slots=True)
class Applied:
    """The result of applying actions."""

    #: A line for each change, as ``engram consolidate --list`` shows it.
    lines: list[str] = field(default_factory=list)
    #: Number of memories that changed.
    changed: int = 0
    #: Number of contradictions noted for a person to decide.
    contradictions: int = 0
    #: Number of memories that were to end and stay.
    staying: int = 0


def apply_actions(
    tx: Tx,
    candidates: Sequence[Candidate],
    stored: Callable[[int], Episode | None],
    evidence: Callable[[Candidate], Sequence[Evidence]],
    project_id: int | None,
) -> Applied:
    """Apply what candidates say of existing memories.

    Whether a memory may end is decided by ``ending_of``. Besides, these memories are never changed: those of another
    project, those said later than the candidate, and those that a person restored. A suspect candidate changes
    nothing.

    Args:
        tx: the transaction.
        candidates: the proposals of a session, those without a target included.
        stored: returns the memory that the candidate at a place became; None if it was left out.
        evidence: returns the entries of a candidate.
        project_id: the project of the session.
    """
    applied = Applied()
    if not any(candidate.target for candidate in candidates):
        return applied
    run_id = add_run(tx, "extract")
    put_back = undone(tx)
    for place, candidate in enumerate(candidates):
        older = find_episode(tx, candidate.target) if candidate.target else None
        if older is None or candidate.suspect or not _is_reachable(older, candidate, project_id):
            continue
        if candidate.action == "same":
            _confirm(tx, older, candidate, evidence(candidate), run_id, applied)
        elif candidate.action in ENDING_ACTIONS:
            newer = None if candidate.action == "retracts" else stored(place)
            changed = applied.changed
            if candidate.action == "retracts" or (newer is not None and newer.id != older.id):
                _end(tx, older, newer, candidate, put_back, run_id, applied)
            applied.staying += applied.changed == changed
    close_run(tx, run_id, applied.lines)
    return applied


def refusals(proposed: Iterable[Refusal], kept: Kept, applied: Applied) -> list[Refusal]:
    """Return why proposals of an answer were not kept, or did not end what they were to end, one for each."""
    return [*proposed, *kept.refused, *[Refusal.TARGET_STAYS] * applied.staying]


def _is_reachable(older: Episode, candidate: Candidate, project_id: int | None) -> bool:
    """Return True if a candidate may change a memory."""
    is_visible = older.project_id == project_id or (older.scope == Scope.GLOBAL and candidate.rests_on_user)
    return older.is_current and is_visible


def _confirm(
    tx: Tx,
    older: Episode,
    candidate: Candidate,
    evidence: Sequence[Evidence],
    run_id: int,
    applied: Applied,
) -> None:
    """Add evidence to a memory that was said again; confirm it if that was in another session.

    A memory that was judged wrong gets neither.
    """
    if is_kept_by_hand(older) or older.is_lowered:
        return
    # A program sends the same prompt again and again.
    is_programs = Voice.PROGRAM in (older.voice, candidate.voice)
    is_elsewhere = any(entry.session_id != older.session_id for entry in evidence)
    has_grown = add_evidence(tx, older, evidence, "said again", run_id=run_id, actor=Actor.MODEL)
    if has_grown and is_elsewhere and not is_programs:
        change_episode(
            tx,
            older,
            "confirm",
            "said again in another session",
            run_id=run_id,
            confirmations=older.confirmations + 1,
            status=Status.ACTIVE,
            importance=Importance.HIGH if candidate.importance == Importance.HIGH else older.importance,
            actor=Actor.MODEL,
        )
    if has_grown:
        applied.changed += 1
        applied.lines.append(f"confirm {older.episode_id} (said again)")


def _end(
    tx: Tx,
    older: Episode,
    newer: Episode | None,
    candidate: Candidate,
    put_back: frozenset[tuple[str, str]],
    run_id: int,
    applied: Applied,
) -> None:
    """Archive or supersede a memory, unless a person has to decide or has decided."""
    since = newer.holds_from_ms if newer is not None else candidate.said_at_ms
    if since < older.holds_from_ms:
        return
    ending = ending_of(older, newer, Actor.MODEL, is_users_word=candidate.rests_on_user)
    if ending is not Ending.ENDS:
        if newer is not None and ending is Ending.CONTRADICTION:
            applied.contradictions += bool(note_contradiction(tx, older.episode_id, newer.episode_id, _why(candidate)))
        return
    action = "archive" if newer is None else "supersede"
    if (action, older.episode_id) in put_back:
        return
    if action == "archive":
        change_episode(
            tx,
            older,
            action,
            _why(candidate),
            run_id=run_id,
            status=Status.ARCHIVED,
            valid_to_ms=since or None,
            actor=Actor.MODEL,
        )
    elif newer is not None:
        change_episode(
            tx,
            older,
            action,
            f"{newer.episode_id} {ENDING_REASONS[candidate.action]}",
            run_id=run_id,
            status=Status.SUPERSEDED,
            superseded_by=newer.episode_id,
            valid_to_ms=since,
            actor=Actor.MODEL,
        )
    applied.changed += 1
    by = f" by {newer.episode_id}" if newer is not None and action == "supersede" else ""
    applied.lines.append(f"{action} {older.episode_id}{by} ({ENDING_REASONS[candidate.action]})")


def _why(candidate: Candidate) -> str:
    return f"{ENDING_REASONS[candidate.action]}: {candidate.summary}"
