"""Replace the local extractor's memories by those that a language model made of the same turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engram.enums import Actor, Status
from engram.models.contradictions import Ending, ending_of
from engram.models.episode_changes import change_episode
from engram.models.episode_evidence import merge_evidence
from engram.models.episodes import Episode, evidence_of, find_episode
from engram.models.extractions import DISTILLED_AGAIN
from engram.models.transaction import Tx
from engram.text.content_words import content_words, prefixes

#: Share of a memory's words that its successor must have, if they rest on a common entry, and if not.
MIN_SHARE, MIN_SHARE_ELSEWHERE = 0.25, 0.5


def replace_memories(tx: Tx, older: Iterable[Episode], newer: Sequence[Episode], model: str, run_id: int) -> list[str]:
    """Supersede each memory by the new one that says the same, which also gets its evidence; archive the others.

    What ``ending_of`` protects stays in force: what the user said or chose ends only if a new memory has the user say
    it, and what somebody pinned or saved does not end.

    Args:
        tx: the transaction.
        older: memories of the local extractor.
        newer: memories that the model made of the same turns.
        model: the name of the model's extractor.
        run_id: the run that records the changes.

    Returns:
        A line for each change.
    """
    lines = []
    made = {episode.id for episode in newer}
    for episode in older:
        if episode.id in made:
            continue
        successor = _successor(tx, episode, newer)
        if successor is not None:
            lines.append(_supersede(tx, episode, successor, model, run_id))
        elif ending_of(episode, None, Actor.MODEL) is Ending.ENDS:
            reason = f"{DISTILLED_AGAIN} by {model}, which did not keep it"
            change_episode(tx, episode, "archive", reason, run_id=run_id, status=Status.ARCHIVED, actor=Actor.MODEL)
            lines.append(f"archive {episode.episode_id} ({DISTILLED_AGAIN})")
    return lines


def _successor(tx: Tx, older: Episode, newer: Sequence[Episode]) -> Episode | None:
    """Return the new memory that says most of what an older one says; None if none says enough."""
    words = prefixes(content_words(older.summary))
    entries = {entry.uuid for entry in evidence_of(tx, older.id)}
    best, best_share = None, 0.0
    for episode in newer:
        if not episode.is_current or ending_of(older, episode, Actor.MODEL) is not Ending.ENDS:
            continue
        there = prefixes(content_words(f"{episode.summary}\n{episode.content}"))
        share = len(words & there) / max(1, len(words))
        is_common = any(entry.uuid in entries for entry in evidence_of(tx, episode.id) if entry.uuid)
        if share >= (MIN_SHARE if is_common else MIN_SHARE_ELSEWHERE) and share > best_share:
            best, best_share = episode, share
    return best


def _supersede(tx: Tx, older: Episode, successor: Episode, model: str, run_id: int) -> str:
    """Put a new memory in the place of an older one."""
    now = find_episode(tx, successor.episode_id) or successor
    merge_evidence(tx, now, older, run_id=run_id, actor=Actor.MODEL)
    if older.confirmations > now.confirmations:
        change_episode(
            tx,
            now,
            "confirm",
            f"{older.episode_id} was confirmed",
            run_id=run_id,
            confirmations=older.confirmations,
            status=Status.ACTIVE,
            actor=Actor.MODEL,
        )
    change_episode(
        tx,
        older,
        "supersede",
        f"{DISTILLED_AGAIN} by {model}: {successor.episode_id}",
        run_id=run_id,
        status=Status.SUPERSEDED,
        superseded_by=successor.episode_id,
        actor=Actor.MODEL,
    )
    return f"supersede {older.episode_id} by {successor.episode_id} ({DISTILLED_AGAIN})"
