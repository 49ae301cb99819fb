"""Choose a session's passages: the best by quality that do not repeat each other."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engram import process_limits
from engram.extraction.bite import Passage, passages
from engram.extraction.cues import CAUSE, REPAIR, tells_fix
from engram.extraction.fixes import FixEpisode, fix_episodes
from engram.extraction.place import Place, places
from engram.extraction.score import features, quality
from engram.extraction.streams import streams
from engram.extraction.user_rules import Judgement, TakingBack, rules, takings_back, typed_prompt
from engram.extraction.write_filter import is_log, is_own, repeats
from engram.redaction.voice import typed_text
from engram.text.content_words import content_words
from engram.transcripts.record import Role, TextBlock, Turn

#: Maximum number of candidates of a turn.
MAX_TURN_CANDIDATES = 10
#: Factor for each further passage of a message, and of a turn.
MESSAGE_DECAY = 0.9
TURN_DECAY = 0.7
#: A turn with this number of messages has room for twice as many passages.
TURN_MESSAGES = 40
#: Quality of a rule of the user; these are always kept.
RULE_QUALITY = 0.95
#: Factor by which a passage about a fix episode counts more, the first of each episode.
FIX_FACTOR = 1.6
#: Minimum worth of such a passage that names cause and repair.
MIN_FIX_WORTH = 0.25
#: Passages that a session may keep: so many, and more for each square root of 1,000 characters of the assistant.
BASE_ROOM = 3
ROOM_FACTOR = 2.1
#: How much the text of a turn without a changed file counts, compared with other turns.
TALK_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Option:
    """A passage that may be kept."""

    turn: Turn
    said: TextBlock
    passage: Passage
    place: Place
    #: Heading and lead above it.
    label: str
    #: Line of the message in which it begins, from 0.
    line: int
    quality: float
    #: True if the user typed it (False for pasted text, and for the assistant).
    is_typed: bool = False
    #: Further messages that the passage spans.
    others: tuple[TextBlock, ...] = ()
    #: Its quality after comparison with what was chosen of the same turn before it.
    worth: float = 0.0
    rule: Judgement | None = None
    episode: FixEpisode | None = None


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses passages with a set of weights."""

    weights: Mapping[str, float]
    #: Minimum quality, 0 to 1, of a passage.
    min_quality: float

    def of_session(
        self,
        turns: Sequence[Turn],
        following: Turn | None,
        taken: Sequence[frozenset[str]],
        *,
        room: int,
        taken_of_user: Sequence[frozenset[str]] = (),
        project: str = "",
        said_before: Collection[str] = (),
    ) -> list[Option]:
        """Return the user's rules and the assistant's best passages of a session, in the order of the turns.

        What else the user said is found in the transcript; no memory is made of it.

        Args:
            turns: The session's turns, with the user's refusals read as their words.
            following: The turn after them, if there is one.
            taken: Content words of what is kept already.
            room: Maximum number of passages; the user's rules are kept beyond it.
            taken_of_user: Content words of what is kept already in the user's words; a rule repeats only them.
            project: Display name of the project.
            said_before: Orders of the user in these turns that they gave in another session too.
        """
        seen, seen_of_user = list(taken), list(taken_of_user)
        rules_of = rules_of_turns(turns, following, project, said_before)
        episodes = fix_episodes(turns)
        chosen: list[Option] = []
        for turn, after in zip(turns, [*turns, following][1:], strict=True):
            process_limits.pause()
            ended_here = [episode for episode in episodes if episode.turn_key == turn.key]
            chosen.extend(self._of_turn(turn, after, ended_here, seen, seen_of_user, rules_of.get(turn.key, [])))
        kept = [place for place, option in enumerate(chosen) if option.rule is not None]
        others = sorted(set(range(len(chosen))) - set(kept), key=lambda place: (-chosen[place].worth, place))
        return [chosen[place] for place in sorted([*kept, *others[: max(0, room - len(kept))]])]

    def _of_turn(
        self,
        turn: Turn,
        following: Turn | None,
        episodes: Sequence[FixEpisode],
        taken: list[frozenset[str]],
        taken_of_user: list[frozenset[str]],
        rules_of_turn: Sequence[Option],
    ) -> list[Option]:
        """Return the best passages of a turn that neither overlap nor repeat what is taken, the best first."""
        options = [*rules_of_turn, *self._passages(turn, following, episodes)]
        chosen: list[Option] = []
        while options and len(chosen) < MAX_TURN_CANDIDATES:
            worth, best = max(((_worth(o, chosen), o) for o in options), key=lambda pair: pair[0])
            if worth < self.min_quality:
                break
            options.remove(best)
            said = taken if best.rule is None else taken_of_user
            if any(overlap(best, other) for other in chosen) or repeats(best.passage.bite, said):
                continue
            chosen.append(replace(best, worth=worth))
            taken.append(content_words(best.passage.bite))
            if best.rule is not None:
                taken_of_user.append(content_words(best.passage.bite))
        return chosen

    def _passages(self, turn: Turn, following: Turn | None, episodes: Sequence[FixEpisode]) -> Iterator[Option]:
        for option, values in scored(turn, following):
            option = replace(option, quality=quality(values, self.weights))
            episode = _episode_of(option, episodes)
            if episode is not None and tells_fix(option.passage.bite):
                option = replace(option, episode=episode)
            yield option


def scored(turn: Turn, following: Turn | None) -> Iterator[tuple[Option, dict[str, float]]]:
    """Yield every passage of the assistant in a turn with its features; its quality is not set yet."""
    place_of = {id(said): place for said, place in places(turn, following)}
    for stream in streams(turn):
        first_place = place_of[id(stream.messages[0])]
        if first_place.is_user or any(is_own(said.text) or is_log(said.text) for said in stream.messages):
            continue
        for passage in passages(stream.statements):
            first = stream.statements[passage.start]
            told = stream.messages_of(passage.start, passage.stop)
            place = place_of[id(told[0])]
            label = f"{first.topic} {first.lead}".strip()
            option = Option(turn, told[0], passage, place, label, first.line, 0.0, others=told[1:])
            yield option, features(passage, stream.statements, place, len(told))


def _worth(option: Option, chosen: Sequence[Option]) -> float:
    """Return the quality, reduced for each chosen passage of the same message and turn; more for an untold fix."""
    if option.rule is not None:
        return option.quality
    if option.episode is not None and all(other.episode != option.episode for other in chosen):
        is_explained = CAUSE.search(option.passage.bite) and REPAIR.search(option.passage.bite)
        return max(MIN_FIX_WORTH if is_explained else 0.0, min(RULE_QUALITY, FIX_FACTOR * option.quality))
    same = sum(other.said is option.said for other in chosen)
    room = 1 + option.place.messages / TURN_MESSAGES
    return float(option.quality * MESSAGE_DECAY**same * TURN_DECAY ** ((len(chosen) - same) / room))


def session_room(turns: Sequence[Turn]) -> int:
    """Return how many passages of a session may be kept: it grows with the square root of what the assistant wrote."""
    characters = sum(
        len(said.text) * (1.0 if turn.has_edits else TALK_SHARE)
        for turn in turns
        for said in turn.said
        if said.role is Role.ASSISTANT
    )
    return BASE_ROOM + round(ROOM_FACTOR * math.sqrt(characters / 1_000))


def overlap(option: Option, other: Option) -> bool:
    """Return True if two options share a statement of a stream."""
    mine, theirs = option.passage, other.passage
    one_stream = {id(s) for s in (option.said, *option.others)} & {id(s) for s in (other.said, *other.others)}
    return bool(one_stream) and mine.start < theirs.stop and theirs.start < mine.stop


def rules_of_turns(
    turns: Sequence[Turn], following: Turn | None, project: str, said_before: Collection[str] = ()
) -> dict[str, list[Option]]:
    """Return the user's rules by turn key, without those that a later prompt takes back.

    Args:
        turns: the session's turns, in order.
        following: the turn after them, if there is one.
        project: display name of the project.
        said_before: orders that the user gave in another session too.
    """
    options: dict[str, list[Option]] = {}
    later: list[TakingBack] = []
    for turn, after in reversed(list(zip(turns, [*turns, following][1:], strict=True))):
        following_prompt = typed_prompt(after)
        found: list[Option] = []
        for said in users_texts(turn):
            place = Place(is_user=True, chars=len(said.text))
            typed = typed_text(said.text)
            for rule in rules(typed, project=project, following=following_prompt, said_before=said_before):
                if any(taking.is_about(rule.sentence) for taking in later):
                    continue
                line = _line_of(said.text, rule.sentence)
                # Rules are no statements of a stream, and overlap with none.
                passage = Passage(-1 - len(found), -len(found), rule.sentence, "")
                found.append(Option(turn, said, passage, place, "", line, RULE_QUALITY, True, rule=rule))
            later.extend(takings_back(typed))
        options[turn.key] = found
    return options


def users_texts(turn: Turn) -> Iterator[TextBlock]:
    """Yield the texts of a turn in which the user may lay something down."""
    for said in turn.users_texts:
        if not is_own(said.text) and not is_log(said.text):
            yield said


def _line_of(text: str, bite: str) -> int:
    """Return the line of a text that contains the first words of a bite; 0 for none."""
    head = bite[:24]
    return next((n for n, line in enumerate(text.splitlines()) if head in line), 0)


def _episode_of(option: Option, episodes: Sequence[FixEpisode]) -> FixEpisode | None:
    """Return the fix episode that a passage may describe: the passage is within it, or closes its turn."""
    if option.place.is_user:
        return None
    for episode in episodes:
        if option.place.is_closing or option.said.uuid in episode.between:
            return episode
    return None
