"""The lines of a briefing: how a memory is told, and the budget that the sections share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engram.clock import day_of
from engram.enums import Voice
from engram.models.branches import MAX_BRANCH_CHARACTERS
from engram.models.episodes import Episode
from engram.recollection.briefing_choice import MAX_TEXT_CHARACTERS
from engram.recollection.render import FENCE, MAX_OUTPUT_CHARACTERS, branch_note, shown_text
from engram.text.recollection_stems import same_words, stems
from engram.text.topic_words import topic_words

#: Voices of the session's own people: everybody else is named.
_OWN_VOICES = (Voice.USER, Voice.CHOSEN, Voice.ASSISTANT)
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

    @property
    def left(self) -> int:
        """Number of characters that are left."""
        return max(0, min(self._left, self._hard_left))

    def has_room(self, characters: int) -> bool:
        """Return True if so many characters are left."""
        return self._left >= characters


def told_in(briefing: str) -> list[str]:
    """Return the ids of the memories that a briefing tells; ids of related memories are not among them."""
    return _TITLE.findall(briefing)


def title_line(episode: Episode, text: str, branch: str = "") -> str:
    """Return the line of a memory, such as ``- [ep_…] 2026-02-20: text``, with whose it is if it is somebody else's.

    Args:
        episode: the memory.
        text: what is told of it.
        branch: the branch that it was learned on, if it was not merged and the session is elsewhere.
    """
    stale = ", may no longer hold" if episode.stale_reason else ""
    said_by = episode.origin or ("" if episode.voice in _OWN_VOICES else episode.voice.label)
    whose = f", {shown_text(said_by, MAX_BRANCH_CHARACTERS)}" if said_by else ""
    head = f"[{episode.episode_id}] {day_of(episode.created_at_ms)}{whose}{stale}{branch_note(branch)}"
    return f"- {head}: {shown_text(text, MAX_TEXT_CHARACTERS)}"


@dataclass(frozen=True, slots=True)
class SectionLines:
    """The lines of a section, the most important first."""

    heading: str
    lines: Sequence[str]
    #: Share of the budget that the section may use before the others got theirs.
    share: float


def fit_sections(sections: Sequence[SectionLines], budget: int) -> list[str]:
    """Return headings and lines within a budget of characters; a line that does not fit is left out whole.

    Every section gets its share first; what is left goes to the first sections.
    """
    chosen: list[set[int]] = [set() for _ in sections]
    left = budget
    for share_of in (lambda section: section.share, lambda section: 1.0):
        for section, picked in zip(sections, chosen, strict=True):
            room = min(left, int(share_of(section) * budget))
            for index, line in enumerate(section.lines):
                cost = len(line) + 1 + (0 if picked else len(section.heading) + 1)
                if index in picked or cost > room:
                    continue
                picked.add(index)
                room -= cost
                left -= cost
    lines: list[str] = []
    for section, picked in zip(sections, chosen, strict=True):
        if picked:
            lines += [section.heading, *(section.lines[index] for index in sorted(picked))]
    return lines


class SaidWords:
    """The words of what was told, to leave out what says the same."""

    def __init__(self) -> None:
        """Start empty."""
        self._told: list[frozenset[str]] = []

    def add(self, text: str) -> bool:
        """Note a text; returns False for one that says the same as an earlier one."""
        words = stems(topic_words(text))
        if any(same_words(words, other) for other in self._told):
            return False
        self._told.append(words)
        return True
