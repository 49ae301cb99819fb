"""Choose a turn's passages: every passage gets its quality, the best that do not repeat are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engram.extraction.bite import Passage, passages
from engram.extraction.directives import Directive, directives
from engram.extraction.fixes import FixEpisode
from engram.extraction.gate import content_words, is_log, is_own, repeats
from engram.extraction.labels import tells_fix
from engram.extraction.place import Place, places
from engram.extraction.score import features, quality
from engram.extraction.sentences import plain, split
from engram.extraction.voice import typed_text
from engram.transcripts.record import Role, Said, Turn

#: Most candidates of one turn.
TURN_CAP = 8
#: What each further passage of one message, and of one turn, is worth beside the one before.
MESSAGE_DECAY = 0.65
TURN_DECAY = 0.8
#: Quality of a directive: the user's own rules are always kept.
DIRECTIVE_QUALITY = 0.95
#: A passage that tells a fix episode is kept from this share of the floor on.
FIX_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Option:
    """One passage that might be kept."""

    turn: Turn
    said: Said
    passage: Passage
    place: Place
    #: Heading and lead above it.
    label: str
    #: Line of the message it begins in, from 0.
    line: int
    quality: float
    #: Whether the user typed it (False for what was pasted, and for the assistant).
    is_typed: bool = False
    directive: Directive | None = None
    episode: FixEpisode | None = None


@dataclass(frozen=True, slots=True)
class Chooser:
    """The choice of passages with one set of weights."""

    weights: Mapping[str, float]
    #: Least worth, 0 to 1, of what is kept.
    floor: float

    def of_turn(
        self,
        turn: Turn,
        following: Turn | None,
        episodes: Sequence[FixEpisode],
        taken: list[frozenset[str]],
        project: str = "",
    ) -> list[Option]:
        """The best passages of a turn that neither overlap nor repeat what is taken, best first.

        Args:
            turn: The turn, with the user's refusals read as their words.
            following: The next turn, where there is one.
            episodes: Fix episodes that end in this turn.
            taken: Content words of what is kept already; those of the choice are added.
            project: Display name of the project.
        """
        options = [*_directive_options(turn, project), *self._passages(turn, following, episodes)]
        chosen: list[Option] = []
        told: set[str] = set()
        while options and len(chosen) < TURN_CAP:
            worth, best = max(((_worth(o, chosen), o) for o in options), key=lambda pair: pair[0])
            if worth < self.floor * FIX_SHARE:
                break
            options.remove(best)
            untold = best.episode is not None and best.episode.failed_uuid not in told
            if worth < self.floor and not untold:
                continue
            if any(overlap(best, other) for other in chosen) or repeats(best.passage.bite, taken):
                continue
            chosen.append(best)
            taken.append(content_words(best.passage.bite))
            if best.episode is not None:
                told.add(best.episode.failed_uuid)
        return chosen

    def _passages(self, turn: Turn, following: Turn | None, episodes: Sequence[FixEpisode]) -> Iterator[Option]:
        for said, place in places(turn, following):
            if is_own(said.text) or is_log(said.text):
                continue
            statements = split(said.text)
            episode = _episode_of(said, place, episodes)
            typed = plain(typed_text(said.text)) if place.is_user else ""
            for passage in passages(statements):
                first = statements[passage.start]
                found = quality(features(passage, statements, place), self.weights)
                label = f"{first.topic} {first.lead}".strip()
                option = Option(turn, said, passage, place, label, first.line, found)
                if place.is_user:
                    option = replace(option, is_typed=first.text[:40] in typed)
                elif episode is not None and tells_fix(passage.bite):
                    option = replace(option, episode=episode)
                yield option


"""+"""


def _worth(option: Option, chosen: Sequence[Option]) -> float:
    """Quality, less for each passage of the same message and of the same turn that is kept already."""
    if option.directive is not None:
        return option.quality
    same = sum(other.said is option.said for other in chosen)
    return option.quality * MESSAGE_DECAY**same * TURN_DECAY ** (len(chosen) - same)


def overlap(option: Option, other: Option) -> bool:
    """Whether two options share a statement of one message."""
    mine, theirs = option.passage, other.passage
    return option.said is other.said and mine.start < theirs.stop and theirs.start < mine.stop


def _directive_options(turn: Turn, project: str) -> Iterator[Option]:
    for said in turn.said:
        if said.role is not Role.USER or is_own(said.text) or is_log(said.text):
            continue
        place = Place(is_user=True, chars=len(said.text))
        for found in directives(typed_text(said.text), project):
            passage = Passage(-1 - found.line, -found.line, found.bite, "")
            yield Option(turn, said, passage, place, "", found.line, DIRECTIVE_QUALITY, True, found)


def _episode_of(said: Said, place: Place, episodes: Sequence[FixEpisode]) -> FixEpisode | None:
    """The fix episode that a message may tell: it stands within it, or closes its turn."""
    for episode in episodes:
        if place.is_closing or said.uuid in episode.between:
            return episode
    return None
