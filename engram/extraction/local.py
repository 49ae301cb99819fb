"""The local extractor: the best passages of each turn become candidates; no key, no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from engram.extraction.bite import Passage, passages
from engram.extraction.candidate import CONTENT_CHARS, Candidate, Scope, Voice
from engram.extraction.gate import content_words, is_log, is_own, repeats
from engram.extraction.labels import entities_of, importance_of, kind_of
from engram.extraction.protocol import ExtractionContext
from engram.extraction.place import places
from engram.extraction.score import features, quality
from engram.extraction.sentences import Statement, split
from engram.extraction.weights import WEIGHTS
from engram.transcripts.record import Role, Said, Turn

#: Least quality of what is kept.
QUALITY_FLOOR = 0.165
#: Most candidates of one turn.
TURN_CAP = 6
#: What each further passage of one message, and of one turn, is worth beside the one before.
MESSAGE_DECAY = 0.65
TURN_DECAY = 0.8
#: How much of the telling message a content holds from the telling line on, in characters.
TELLING_CHARS = 600
#: Share of the passage's words that another message of the turn must hold to support it.
SUPPORT_SHARE = 0.35
#: Most supporting messages of a candidate, and how much of each its content holds, in characters.
MAX_SUPPORTS = 2
SUPPORT_CHARS = 300
#: How much of the prompt a content holds at first, in characters.
PROMPT_CHARS = 200


@dataclass(frozen=True, slots=True)
class _Option:
    """One passage that might be kept."""

    turn: Turn
    said: Said
    passage: Passage
    first: Statement
    quality: float


class LocalExtractor:
    """Chooses passages by a small logistic model; see ``docs/extraction.md`` for what it was measured on."""

    name = "local-1"

    def __init__(self, weights: Mapping[str, float] | None = None, floor: float = QUALITY_FLOOR) -> None:
        """Args:
        weights: Weights of the model by feature name; the shipped ones by default.
        floor: Least quality, 0 to 1, of what is kept.
        """
        self._weights = dict(weights if weights is not None else WEIGHTS)
        self._floor = floor

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """See ``Extractor.propose``."""
        taken = [content_words(bite) for bite in context.known]
        chosen: list[_Option] = []
        for turn, following in zip_longest(turns, turns[1:]):
            chosen.extend(self._of_turn(turn, following, taken))
        room = max(0, context.session_cap - context.kept_before)
        best = sorted(chosen, key=lambda o: -o.quality)[:room]
        return [_candidate(option, context) for option in chosen if option in best]

    def _of_turn(self, turn: Turn, following: Turn | None, taken: list[frozenset[str]]) -> list[_Option]:
        """The best passages of a turn that neither overlap nor repeat; adds their words to ``taken``."""
        options = list(self._options(turn, following))
        chosen: list[_Option] = []
        while len(chosen) < TURN_CAP:
            ranked = [(self._worth(o, chosen), o) for o in options]
            worth, best = max(ranked, key=lambda pair: pair[0], default=(0.0, None))
            if best is None or worth < self._floor:
                break
            options.remove(best)
            if any(_overlap(best, other) for other in chosen) or repeats(best.passage.bite, taken):
                continue
            chosen.append(best)
            taken.append(content_words(best.passage.bite))
        return chosen

    @staticmethod
    def _worth(option: _Option, chosen: Sequence[_Option]) -> float:
        """Quality, less for each passage of the same message and the same turn that is kept already."""
        same = sum(other.said is option.said for other in chosen)
        return option.quality * MESSAGE_DECAY**same * TURN_DECAY ** (len(chosen) - same)

    def _options(self, turn: Turn, following: Turn | None) -> Iterator[_Option]:
        for said, place in places(turn, following):
            if is_own(said.text) or is_log(said.text):
                continue
            statements = split(said.text)
            for passage in passages(statements):
                found = features(passage, statements, place)
                yield _Option(turn, said, passage, statements[passage.start], quality(found, self._weights))


def _overlap(option: _Option, other: _Option) -> bool:
    mine, theirs = option.passage, other.passage
    return option.said is other.said and mine.start < theirs.stop and theirs.start < mine.stop


def _candidate(option: _Option, context: ExtractionContext) -> Candidate:
    is_user = option.said.role is Role.USER
    bite = option.passage.bite
    supports = _supports(option)
    kind = kind_of(bite, f"{option.first.topic} {option.first.lead}", is_user=is_user)
    return Candidate(
        kind=kind,
        summary=bite,
        content=_content(option, supports),
        evidence=_evidence(option, supports),
        turn_keys=(option.turn.key,),
        entities=entities_of(bite, option.turn),
        importance=importance_of(kind, option.quality, is_user=is_user),
        scope=Scope.GLOBAL if context.is_global else Scope.PROJECT,
        voice=Voice.USER_SAID if is_user else Voice.ASSISTANT_SAID,
        confidence=round(0.4 + 0.5 * option.quality, 3),
        quality=round(option.quality, 3),
    )


def _supports(option: _Option) -> list[Said]:
    """Other messages of the turn that say much of what the passage says, the closest first."""
    said = content_words(option.passage.bite)
    others = [s for s in option.turn.said if s is not option.said and s.role is Role.ASSISTANT and s.uuid]
    shares = [(len(said & content_words(s.text)) / max(1, len(said)), s) for s in others]
    near = sorted((pair for pair in shares if pair[0] >= SUPPORT_SHARE), key=lambda pair: -pair[0])
    return [s for _, s in near[:MAX_SUPPORTS]]


def _evidence(option: _Option, supports: Sequence[Said]) -> tuple[str, ...]:
    """The telling entry, the entries that support it, then the prompt it answers, which the content quotes."""
    prompts = [s.uuid for s in option.turn.said if s.role is Role.USER]
    return tuple(dict.fromkeys(u for u in [option.said.uuid, *(s.uuid for s in supports), *prompts] if u))


def _content(option: _Option, supports: Sequence[Said]) -> str:
    """The message from the telling line on, what supports it, the prompt, then what stands before it."""
    lines = option.said.text.splitlines()
    telling = "\n".join(lines[option.first.line :]).strip()
    parts = [telling[:TELLING_CHARS]]
    said = content_words(option.passage.bite)
    for other in supports:
        parts.append("[also] " + _nearest_lines(other.text, said)[:SUPPORT_CHARS])
    if option.said.role is Role.ASSISTANT and option.turn.prompt:
        parts.append("[asked] " + option.turn.prompt[:PROMPT_CHARS])
    if len(telling) > TELLING_CHARS:
        parts.append("[on] " + telling[TELLING_CHARS:])
    before = "\n".join(lines[: option.first.line]).strip()
    if before:
        parts.append("[before it] " + before)
    return "\n\n".join(parts)[:CONTENT_CHARS]


def _nearest_lines(text: str, said: frozenset[str]) -> str:
    """The text from the line on that shares most words with the passage."""
    lines = text.splitlines()
    best = max(range(len(lines)), key=lambda i: len(said & content_words(lines[i])))
    return "\n".join(lines[best:]).strip()
