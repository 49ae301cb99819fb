"""The steps of a consolidation over the stored memories, each a small change in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engram.atomic import read_regular, write_atomic
from engram.clock import day_of
from engram.consolidation.ageing import aged, graduates
from engram.consolidation.merging import merged_content, merged_summary, plain
from engram.failpoint import reach
from engram.models import episodes, runs
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.notes.daily import log_session
from engram.notes.memory_note import add_lines, within_limits
from engram.redaction.display import fence_safe, one_line
from engram.settings import Settings

#: Kinds of which a near-duplicate is merged; turns and states are records of their time.
_MERGED_KINDS = ("decision", "preference", "fix", "fact", "dead-end")
#: MEMORY.md is read up to this many bytes, so that a user's larger file is left alone.
_NOTE_BYTES = 1_000_000

#: Pairs ``(row id, row id, cosine)`` of similar memories, the most similar first.
Similar = Callable[[float], Iterator[tuple[int, int, float]]]


@dataclass(slots=True)
class Context:
    """What the steps share."""

    store: Store
    settings: Settings
    run_id: int | None
    #: None where no vectors are at hand.
    similar: Similar | None = None
    duplicate_cosine: float = 0.92
    is_dry: bool = False
    #: Lines for the report, a line a change.
    told: list[str] = field(default_factory=list)
    #: Note file → its text before this run, "" for none; for the undo.
    files_before: dict[str, str] = field(default_factory=dict)

    def tell(self, text: str) -> None:
        """Add a line to the report."""
        self.told.append(text)


def archive_exact_duplicates(context: Context) -> None:
    """Of memories that say the same in the same place, the most trusted stays and the others are archived."""
    first: dict[tuple[str, int | None, str, str], Episode] = {}
    for episode in _living(context.store):
        key = (plain(episode.summary), episode.project_id, episode.scope, plain(episode.content))
        kept = first.setdefault(key, episode)
        if kept is not episode:
            _archive_into(context, kept, episode, "says the same")


def _archive_into(context: Context, kept: Episode, merged: Episode, reason: str) -> None:
    context.tell(f"archive {merged.episode_id} ({reason} as {kept.episode_id})")
    if context.is_dry:
        return
    with context.store.writing():
        reach("consolidate.begin")
        runs.add_merged_evidence(context.store, kept, merged, context.run_id)
        episodes.change_episode(
            context.store, merged, "archive", f"{reason} as {kept.episode_id}", run_id=context.run_id,
            status="archived", superseded_by=kept.episode_id,
        )  # fmt: skip
        current = episodes.find_episode(context.store, kept.episode_id)
        if current is not None and merged.session_id != kept.session_id:
            episodes.change_episode(
                context.store, current, "confirm", f"came back as {merged.episode_id}", run_id=context.run_id,
                confirmations=current.confirmations + 1,
                status="active" if current.status == "provisional" else current.status,
            )  # fmt: skip
        reach("consolidate.changed")
    reach("consolidate.committed")


def merge_near_duplicates(context: Context) -> None:
    """Merge memories of one kind and place whose vectors nearly agree: the older takes up the newer's words."""
    if context.similar is None:
        return
    gone: set[int] = set()
    for one, other, cosine in context.similar(context.duplicate_cosine):
        if one in gone or other in gone:
            continue
        found = episodes.episodes_by_row(context.store, [one, other])
        if len(found) == 2:
            older, newer = sorted(found.values(), key=lambda e: (e.created_at_ms, e.id))
            if _may_merge(older, newer):
                _merge(context, older, newer, cosine)
                gone.add(newer.id)


def _may_merge(older: Episode, newer: Episode) -> bool:
    living = all(e.status in ("active", "provisional") and not e.suspect and not e.is_pinned for e in (older, newer))
    same_place = (older.project_id, older.scope, older.kind) == (newer.project_id, newer.scope, newer.kind)
    same_voice = older.voice == newer.voice and older.source == newer.source
    return living and same_place and same_voice and older.kind in _MERGED_KINDS and older.source == "auto"


def _merge(context: Context, older: Episode, newer: Episode, cosine: float) -> None:
    summary, content = merged_summary(older.summary, newer.summary), merged_content(older.content, newer.content)
    context.tell(f"merge {newer.episode_id} into {older.episode_id} (cosine {cosine:.3f})")
    if context.is_dry:
        return
    with context.store.writing():
        reach("consolidate.begin")
        changes = {"importance": "high" if "high" in (older.importance, newer.importance) else "normal"}
        if summary != older.summary:
            changes["summary"] = summary
        if content != older.content:
            changes["content"] = content
        runs.add_merged_evidence(context.store, older, newer, context.run_id)
        episodes.change_episode(
            context.store, older, "merge", f"took up {newer.episode_id}", run_id=context.run_id, **changes
        )
        episodes.change_episode(
            context.store, newer, "archive", f"merged into {older.episode_id}", run_id=context.run_id,
            status="archived", superseded_by=older.episode_id,
        )  # fmt: skip
        reach("consolidate.changed")
    reach("consolidate.committed")


def age(context: Context) -> None:
    """Lower the weight of old memories and archive those that nobody used."""
    now = context.store.now_ms()
    for episode in _living(context.store):
        wanted = aged(episode, now, context.settings.archive_days)
        if (wanted.weight, wanted.status) != (episode.weight, episode.status):
            context.tell(
                f"{'archive' if wanted.status != episode.status else 'age'} {episode.episode_id} ({wanted.reason})"
            )
            if not context.is_dry:
                with context.store.writing():
                    episodes.change_episode(
                        context.store, episode, "age", wanted.reason, run_id=context.run_id,
                        weight=wanted.weight, status=wanted.status,
                    )  # fmt: skip


def pack_old(context: Context) -> None:
    """Pack the content of episodes older than ``compress_days``; summary and evidence stay as they are."""
    limit = context.store.now_ms() - context.settings.compress_days * 86_400_000
    for episode in episodes.unpacked_before(context.store, limit):
        context.tell(f"pack {episode.episode_id} (older than {context.settings.compress_days} days)")
        if not context.is_dry:
            with context.store.writing():
                runs.pack_content(
                    context.store, episode, context.run_id, f"older than {context.settings.compress_days} days"
                )


def graduate(context: Context) -> None:
    """Write the memories that have earned it into MEMORY.md, at most ``graduate_limit`` a run."""
    now = context.store.now_ms()
    chosen = [e for e in _living(context.store) if graduates(e, now)][: context.settings.graduate_limit]
    if not chosen:
        return
    lines = [f"- {fence_safe(one_line(e.summary, 240))} <!-- {e.episode_id} -->" for e in chosen]
    for episode in chosen:
        context.tell(f"graduate {episode.episode_id} into MEMORY.md")
    if context.is_dry:
        return
    note = context.settings.places.memory_note
    data = read_regular(note, _NOTE_BYTES + 1) or b""
    if len(data) > _NOTE_BYTES:
        context.tell("MEMORY.md is too large to be edited; nothing graduated")
        return
    with context.store.writing():
        for episode in chosen:
            episodes.change_episode(
                context.store, episode, "graduate", "into MEMORY.md", run_id=context.run_id, graduated_at_ms=now
            )
        _write_memory_note(context, data.decode("utf-8", "replace"), day_of(now)[:7], lines)


def _write_memory_note(context: Context, text: str, month: str, lines: list[str]) -> None:
    places = context.settings.places
    kept, moved = within_limits(add_lines(text, month, lines))
    context.files_before.setdefault("MEMORY.md", text)
    if moved:
        archive = places.archive_notes / f"{month}.md"
        old = (read_regular(archive, _NOTE_BYTES * 20) or b"").decode("utf-8", "replace")
        context.files_before.setdefault(f"archive/{month}.md", old)
        write_atomic(archive, (old + moved).encode())
    write_atomic(places.memory_note, kept.encode())


def write_digests(context: Context, since_ms: int) -> None:
    """Write the daily log's section of every session that spoke since the last run."""
    for session_id in runs.sessions_active_since(context.store, since_ms):
        if not context.is_dry:
            log_session(context.store, context.settings.places, session_id)


def _living(store: Store) -> list[Episode]:
    """Memories that are neither archived nor superseded: the most trusted first, then the oldest."""
    found = [e for e in episodes.all_episodes(store) if e.status in ("active", "provisional")]
    return sorted(
        found, key=lambda e: (not e.is_pinned, e.source != "manual", e.importance != "high", e.created_at_ms, e.id)
    )
