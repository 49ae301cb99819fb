"""The lines of a briefing: the title of a memory, its details, and the budget that they share."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from engram.clock import day_of
from engram.enums import Source, Status
from engram.models.episode_lists import related_episodes
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.recollection.render import FENCE, MAX_OUTPUT_CHARACTERS, shown_text
from engram.text.recollection_stems import same_words, stems
from engram.text.topic_words import topic_words

#: Maximum number of ids of related memories in a line.
MAX_RELATED_IDS = 2
#: Maximum length of a title, a fact, and the beginning of a content, in characters.
MAX_TITLE_CHARACTERS, MAX_FACT_CHARACTERS, MAX_BEGINNING_CHARACTERS = 180, 140, 100
#: Maximum number of facts shown of a memory.
MAX_FACTS = 5

_COMMIT = re.compile(r"[0-9a-f]{7,40} ")
_TITLE = re.compile(r"^- \[(ep_[0-9a-f]{12})\]", re.MULTILINE)


class Lines:
    """Lines within a budget of characters. A line that does not fit is left out whole."""

    def __init__(self, budget: int) -> None:
        """``budget``: maximum number of characters, those of the fence included."""
        self.kept: list[str] = []
        self._left = budget - 2 * len(FENCE) - 8
        self._hard_left = MAX_OUTPUT_CHARACTERS - 2 * len(FENCE) - 200

    def add(self, *lines: str, is_required: bool = False) -> bool:
        """Add all lines, or none if they do not fit; required ones are bound by the limit of a hook's output only."""
        size = sum(len(line) + 1 for line in lines)
        if size > (self._hard_left if is_required else min(self._left, self._hard_left)):
            return False
        self.kept += lines
        self._left -= size
        self._hard_left -= size
        return True

    def has_room(self, characters: int) -> bool:
        """Return True if so many characters are left."""
        return self._left >= characters


def told_in(briefing: str) -> list[str]:
    """Return the ids of the memories that a briefing tells; ids of related memories are not among them."""
    return _TITLE.findall(briefing)


def title_line(episode: Episode) -> str:
    """Return the title of a memory, such as ``- [ep_…] 2026-02-20, high: summary``."""
    stale = ", may no longer hold" if episode.stale_reason else ""
    head = f"[{episode.episode_id}] {day_of(episode.created_at_ms)}, {episode.importance}{stale}"
    return f"- {head}: {shown_text(episode.summary, MAX_TITLE_CHARACTERS)}"


def detail_lines(episode: Episode) -> list[str]:
    """Return a memory's facts as bullets, or the beginning of its content if that says more than the title."""
    if facts := told_facts(episode):
        return [f"  - {shown_text(fact, MAX_FACT_CHARACTERS)}" for fact in facts[:MAX_FACTS]]
    beginning = shown_text(episode.content, MAX_BEGINNING_CHARACTERS)
    if not beginning or beginning.rstrip("…")[:40] in shown_text(episode.summary, 1000):
        return []
    return [f"  {beginning}"]


def related_line(store: Store, episode: Episode, project_id: int, without: Collection[str] = ()) -> list[str]:
    """Return a line with the ids of memories about the same files, symbols and commands; no line if there are none."""
    related = related_episodes(store, episode, project_id, MAX_RELATED_IDS)
    ids = [other.episode_id for other in related if is_confirmed(other) and other.episode_id not in without]
    return [f"  related: {', '.join(ids)}"] if ids else []


def told_facts(episode: Episode) -> list[str]:
    """Return the facts that may be shown; of the local extractor's, only changed files and commits.

    The other facts of the local extractor come from the output of tools.
    """
    if episode.source == Source.AUTO and episode.extractor.startswith("local"):
        return [fact for fact in episode.facts if fact.startswith("changed: ") or _COMMIT.match(fact)]
    return list(episode.facts)


def is_confirmed(episode: Episode) -> bool:
    """Return True for an active memory that nothing speaks against."""
    return episode.status == Status.ACTIVE and not (episode.suspect or episode.superseded_by or episode.is_lowered)


def without_repeats(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the episodes without those that say what a better one, further ahead, says."""
    kept: list[tuple[frozenset[str], Episode]] = []
    for episode in episodes:
        words = stems(topic_words(episode.summary))
        if not any(same_words(words, other) for other, _ in kept):
            kept.append((words, episode))
    return [episode for _, episode in kept]
