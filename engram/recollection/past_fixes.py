"""For people: what fixed an error before, and what was tried in vain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.clock import iso_time
from engram.enums import Kind
from engram.models.episode_lists import current_episodes
from engram.models.episodes import Episode, find_episode
from engram.models.failures import earlier_failures
from engram.models.projects import project_by_id
from engram.models.sessions import find_session
from engram.models.store import Store
from engram.models.turns import StoredTurn
from engram.recollection.briefing_choice import is_in_force
from engram.recollection.failures import FIX_KINDS, MAX_EARLIER, memories_between, resolutions_of, way_of
from engram.recollection.resolutions import Resolution
from engram.recollection.where import resume_of
from engram.text.failures import error_keys, telling_lines
from engram.text.recollection_stems import stems
from engram.text.topic_words import topic_words

#: Share of the error's words that a memory of a fix or dead end must have, and their minimum number.
MIN_SHARED_WORDS, MIN_WORDS = 0.5, 2


@dataclass(frozen=True, slots=True)
class PastFix:
    """One way in which an error was fixed, or was not."""

    #: The id of a memory; "" for a failure that was only seen to pass later.
    id: str
    #: Display name of the project that it comes from; "" for none.
    project: str
    kind: Kind
    text: str
    #: What the assistant said about it; "" for a memory, and if it said nothing telling.
    words: str
    at_ms: int
    session_id: str
    #: The command that resumes the session; "" if its transcript is gone.
    resume: str
    #: Share of the error that is the same, from 0 to 1.
    match: float

    def to_json(self) -> dict[str, Any]:
        """The fix for scripts."""
        return {
            "id": self.id or None,
            "project": self.project or None,
            "kind": self.kind,
            "text": self.text,
            "words": self.words or None,
            "at": iso_time(self.at_ms) if self.at_ms else None,
            "session": self.session_id or None,
            "resume": self.resume or None,
            "match": round(self.match, 3),
        }


def find_fixes(
    store: Store,
    error: str,
    project_ids: Collection[int],
    limit: int,
    *,
    told: Mapping[str, float] | None = None,
    branches: Collection[str] = (),
) -> list[PastFix]:
    """Return what fixed an error before and what did not, the best match first.

    Args:
        store: the open memory.
        error: the error message, or the line of it that matters.
        project_ids: the projects to look in.
        limit: maximum number of results.
        told: ids of the memories that a prompt with this error would be told, with the relevance of each, from 0 to 1.
        branches: the branch of now, which may be part of the error.
    """
    keys = error_keys(telling_lines(error) or [error], branches)
    fixes: list[PastFix] = []
    for project_id in project_ids:
        fixes += _fixes_of_failures(store, keys, project_id)
        known = {fix.id for fix in fixes}
        fixes += [fix for fix in _fixes_of_memories(store, error, project_id) if fix.id not in known]
    known = {fix.id for fix in fixes}
    for episode_id, relevance in (told or {}).items():
        episode = find_episode(store, episode_id)
        if episode_id not in known and episode is not None and episode.kind in FIX_KINDS:
            fixes.append(_fix_of_memory(store, episode, relevance))
    ranked = sorted(fixes, key=lambda fix: (-fix.match, fix.kind is Kind.DEAD_END, -fix.at_ms))
    return list({(fix.id, fix.text): fix for fix in reversed(ranked)}.values())[::-1][:limit]


def _fixes_of_failures(store: Store, keys: Sequence[int], project_id: int) -> list[PastFix]:
    """Return how earlier failures with the same error were made to pass."""
    earlier = sorted(earlier_failures(store, project_id, keys), key=lambda call: -len(call.shared_keys)) if keys else []
    fixes = []
    for call in earlier[:MAX_EARLIER]:
        match = len(call.shared_keys) / len(keys)
        for turns, resolution in resolutions_of(store, call):
            fixes += _fixes_of(store, turns, resolution, turns[0].turn.actions[call.seq].command, match)
    return fixes


def _fixes_of(
    store: Store, turns: Sequence[StoredTurn], resolution: Resolution, command: str, match: float
) -> list[PastFix]:
    between = turns[: resolution.turn_index + 1]
    fixes = [
        _fix_of_memory(store, episode, match)
        for episode in memories_between(store, resolution, between)
        if is_in_force(episode)
    ]
    last = between[-1].turn
    session = find_session(store, last.session_id)
    seen = PastFix(
        id="",
        project=_name_of(store, between[-1].project_id),
        kind=Kind.FIX,
        text=way_of(resolution, command),
        words=resolution.words,
        at_ms=last.ended_at_ms or last.started_at_ms or 0,
        session_id=last.session_id,
        resume="" if session is None else resume_of(store, session),
        match=match,
    )
    return [*fixes, seen]


def _fixes_of_memories(store: Store, error: str, project_id: int) -> list[PastFix]:
    """Return the memories of fixes and dead ends that have most of the words of the error."""
    wanted = stems(topic_words(error))
    if len(wanted) < MIN_WORDS:
        return []
    fixes = []
    for episode in current_episodes(store, project_id):
        if episode.kind in FIX_KINDS and is_in_force(episode):
            told = stems(topic_words(f"{episode.summary} {episode.content} {' '.join(episode.entities)}"))
            share = len(wanted & told) / len(wanted)
            if share >= MIN_SHARED_WORDS and len(wanted & told) >= MIN_WORDS:
                fixes.append(_fix_of_memory(store, episode, share))
    return fixes


def _fix_of_memory(store: Store, episode: Episode, match: float) -> PastFix:
    session = find_session(store, episode.session_id) if episode.session_id else None
    return PastFix(
        id=episode.episode_id,
        project=_name_of(store, episode.project_id),
        kind=episode.kind,
        text=episode.summary,
        words="",
        at_ms=episode.created_at_ms,
        session_id=episode.session_id,
        resume="" if session is None else resume_of(store, session),
        match=match,
    )


def _name_of(store: Store, project_id: int | None) -> str:
    project = None if project_id is None else project_by_id(store, project_id)
    return "" if project is None else project.name
