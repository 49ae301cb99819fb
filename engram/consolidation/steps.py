"""Steps of a consolidation: duplicates, merging, ageing, packing, digests; each change is a transaction of its own."""

from __future__ import annotations

import hashlib
from typing import Any

from engram.consolidation.ageing import aged
from engram.consolidation.context import Context
from engram.consolidation.supersede import says_otherwise
from engram.enums import Actor, Importance, Kind, Status
from engram.failpoint import reach
from engram.memories.merging import merged_content, merged_summary, plain
from engram.models import episode_changes, episode_evidence, episode_lists, episodes, runs
from engram.models.contradictions import Ending, ending_of
from engram.models.episodes import Episode
from engram.notes.daily import log_session
from engram.text.titles import MAX_QUESTIONS

#: Kinds whose near-duplicates are merged; turns and states are records of their time.
_MERGED_KINDS = (Kind.DECISION, Kind.PREFERENCE, Kind.FIX, Kind.FACT, Kind.DEAD_END)


def archive_exact_duplicates(context: Context) -> None:
    """Archive exact duplicates of a project and scope, except the one that was judged wrong, else the most trusted.

    Nothing ends in a memory of less authority: then the other one ends, or both stay.
    """
    if context.changed is not None and not context.changed:
        return
    # What a memory says and where, as a digest → its row id.
    first: dict[bytes, int] = {}
    for episode in context.current_memories():
        context.check_time()
        key = _digest_of_said(episode)
        kept = next(context.read_current([first[key]]), None) if key in first else episode
        if kept is None or kept.id == episode.id:
            first[key] = episode.id
            continue
        if episode.is_lowered != kept.is_lowered:
            # What says the same as a wrong memory is wrong too, unless somebody stated it beside the judgement.
            kept, episode = (episode, kept) if episode.is_lowered else (kept, episode)
            may_end = ending_of(episode, kept, Actor.TIDYING, is_users_word=False) is Ending.ENDS
        else:
            if not _may_join(episode, kept):
                kept, episode = episode, kept
            may_end = _may_join(episode, kept)
        if may_end and not context.is_undone("archive", episode):
            first[key] = _archive_into(context, kept, episode).id


def _may_join(merged: Episode, kept: Episode) -> bool:
    """Return True if a memory may end in another one that says the same word for word."""
    return ending_of(merged, kept, Actor.TIDYING, is_same_text=True) is Ending.ENDS


def _digest_of_said(episode: Episode) -> bytes:
    said = (plain(episode.summary), episode.project_id, episode.scope, episode.origin, plain(episode.content))
    return hashlib.sha256(repr(said).encode("utf-8", "surrogatepass")).digest()


def _archive_into(context: Context, kept: Episode, merged: Episode) -> Episode:
    """Archive ``merged``; returns ``kept`` as it is stored then."""
    line = f"archive {merged.episode_id} (says the same as {kept.episode_id})"
    if context.is_dry:
        context.tell(line)
        return kept
    with context.store.transaction() as tx:
        reach("consolidate.begin")
        if (now := context.unchanged(tx, kept, merged)) is None:
            return kept
        kept, merged = now
        episode_evidence.merge_evidence(tx, kept, merged, run_id=context.run_id, actor=Actor.TIDYING)
        context.archive_repeated(tx, merged, kept, Actor.TIDYING)
        if merged.session_id != kept.session_id:
            kept = episode_changes.change_episode(
                tx,
                kept,
                "confirm",
                f"came back as {merged.episode_id}",
                run_id=context.run_id,
                confirmations=kept.confirmations + 1,
                status=Status.ACTIVE if kept.status == Status.PROVISIONAL else kept.status,
                actor=Actor.TIDYING,
            )
        context.tell(line)
        reach("consolidate.changed")
    reach("consolidate.committed")
    return kept


def merge_near_duplicates(context: Context) -> None:
    """Merge memories of the same kind and project whose vectors nearly agree: the older one takes up the newer
    one's words.
    """
    gone: set[int] = set()
    for first_id, second_id, cosine in context.pairs(context.duplicate_cosine):
        context.check_time()
        if first_id in gone or second_id in gone:
            continue
        pair = episodes.episodes_by_row(context.store, [first_id, second_id])
        if len(pair) == 2:
            older, newer = sorted(pair.values(), key=lambda e: (e.created_at_ms, e.id))
            is_wanted = _may_merge(older, newer) and not context.is_undone("archive", newer)
            if is_wanted and _merge(context, older, newer, cosine):
                gone |= {first_id, second_id}


def _may_merge(older: Episode, newer: Episode) -> bool:
    are_current = all(e.is_current and not e.suspect for e in (older, newer))
    are_judged_alike = older.is_lowered == newer.is_lowered
    same_place = (older.project_id, older.scope, older.kind) == (newer.project_id, newer.scope, newer.kind)
    # Both texts become one, so neither may be somebody else's or kept by hand.
    same_voice = (older.voice, older.origin) == (newer.voice, newer.origin)
    may_end = all(ending_of(*pair, Actor.TIDYING) is Ending.ENDS for pair in ((older, newer), (newer, older)))
    if not (are_current and are_judged_alike and same_place and same_voice and may_end):
        return False
    if older.kind not in _MERGED_KINDS:
        return False
    return not says_otherwise(older.summary, newer.summary)


def _merge(context: Context, older: Episode, newer: Episode, cosine: float) -> bool:
    """Append the newer memory to the older one and archive it; returns False if one of them changed meanwhile."""
    line = f"merge {newer.episode_id} into {older.episode_id} (cosine {cosine:.3f})"
    if context.is_dry:
        context.tell(line)
        return True
    with context.store.transaction() as tx:
        reach("consolidate.begin")
        if (now := context.unchanged(tx, older, newer)) is None:
            return False
        older, newer = now
        episode_evidence.merge_evidence(tx, older, newer, run_id=context.run_id, actor=Actor.TIDYING)
        episode_changes.change_episode(
            tx,
            older,
            "merge",
            f"took up {newer.episode_id}",
            run_id=context.run_id,
            **_merged_fields(older, newer),
            actor=Actor.TIDYING,
        )
        episode_changes.change_episode(
            tx,
            newer,
            "archive",
            f"merged into {older.episode_id}",
            run_id=context.run_id,
            status=Status.ARCHIVED,
            superseded_by=older.episode_id,
            actor=Actor.TIDYING,
        )
        context.tell(line)
        reach("consolidate.changed")
    reach("consolidate.committed")
    return True


def _merged_fields(older: Episode, newer: Episode) -> dict[str, Any]:
    """Return the changes of the older memory: both texts, the higher importance, confirmed by another session."""
    fields: dict[str, Any] = {
        "summary": merged_summary(older.summary, newer.summary),
        "content": merged_content(older.content, newer.content),
        "importance": Importance.HIGH if Importance.HIGH in (older.importance, newer.importance) else Importance.NORMAL,
        "entities": tuple(dict.fromkeys([*older.entities, *newer.entities]))[:20],
        "questions": tuple(dict.fromkeys([*older.questions, *newer.questions]))[:MAX_QUESTIONS],
    }
    if older.session_id != newer.session_id:
        fields |= {"confirmations": older.confirmations + 1, "status": Status.ACTIVE}
    return episode_changes.differing(older, fields)


def age(context: Context) -> None:
    """Lower the weight of old memories and archive unused ones."""
    now = context.store.now_ms()
    for episode in context.current_memories():
        context.check_time()
        wanted = aged(episode, now, context.settings.archive_days)
        if (wanted.weight, wanted.status) == (episode.weight, episode.status):
            continue
        if context.change(
            episode, "age", wanted.reason, weight=wanted.weight, status=wanted.status, actor=Actor.TIDYING
        ):
            verb = "archive" if wanted.status != episode.status else "age"
            context.tell(f"{verb} {episode.episode_id} ({wanted.reason})")


def pack_old(context: Context) -> None:
    """Compress the content of memories not changed or used for ``compress_days``; summary and evidence stay."""
    days = context.settings.compress_days
    for episode in episode_lists.unpacked_before(context.store, context.store.now_ms() - days * 86_400_000):
        context.check_time()
        if not context.is_dry:
            with context.store.transaction() as tx:
                if (now := context.unchanged(tx, episode)) is None:
                    continue
                episode_changes.pack_old_content(
                    tx, now[0], f"older than {days} days", run_id=context.run_id, actor=Actor.TIDYING
                )
        context.tell(f"pack {episode.episode_id} (older than {days} days)")


def write_digests(context: Context, since_ms: int) -> None:
    """Write the daily log's section of every session that grew since the last run."""
    for session_id in runs.sessions_grown_since(context.store, since_ms):
        context.check_time()
        if not context.is_dry:
            log_session(context.store, context.settings.places, session_id)
