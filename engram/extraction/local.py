"""The local extractor: the best passages of each turn become candidates; no key, no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engram.extraction.bite import Passage, passages
from engram.extraction.candidate import CONTENT_CHARS, Candidate, Scope, Voice
from engram.extraction.gate import content_words, is_log, is_own, repeats
from engram.extraction.labels import entities_of, importance_of, kind_of
from engram.extraction.protocol import ExtractionContext
from engram.extraction.score import Place, features, quality, words_of
from engram.extraction.sentences import Statement, split
from engram.extraction.weights import WEIGHTS
from engram.transcripts.record import Role, Said, Turn

#: Least quality of what is kept.
QUALITY_FLOOR = 0.30
#: Most candidates of one turn.
TURN_CAP = 6
#: How much of the telling message a content holds from the telling line on, in characters.
TELLING_CHARS = 1_600


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
        for turn in turns:
            chosen.extend(self._of_turn(turn, taken))
        room = max(0, context.session_cap - context.kept_before)
        best = sorted(chosen, key=lambda o: -o.quality)[:room]
        return [_candidate(option, context) for option in chosen if option in best]

    def _of_turn(self, turn: Turn, taken: list[frozenset[str]]) -> list[_Option]:
        """The best passages of a turn that neither overlap nor repeat; adds their words to ``taken``."""
        options = sorted(self._options(turn), key=lambda o: -o.quality)
        chosen: list[_Option] = []
        for option in options:
            if len(chosen) >= TURN_CAP or option.quality < self._floor:
                break
            if any(_overlap(option, other) for other in chosen) or repeats(option.passage.bite, taken):
                continue
            chosen.append(option)
            taken.append(content_words(option.passage.bite))
        return chosen

    def _options(self, turn: Turn) -> Iterator[_Option]:
        for said, place in _messages(turn):
            if is_own(said.text) or is_log(said.text):
                continue
            statements = split(said.text)
            for passage in passages(statements):
                found = features(passage, statements, place(len(statements)))
                yield _Option(turn, said, passage, statements[passage.start], quality(found, self._weights))


def _messages(turn: Turn) -> Iterator[tuple[Said, _PlaceMaker]]:
    replies = [s for s in turn.said if s.role is Role.ASSISTANT]
    prompt_words = words_of(turn.prompt)
    for said in turn.said:
        yield said, _PlaceMaker(turn, said, replies, prompt_words)


@dataclass(frozen=True, slots=True)
class _PlaceMaker:
    """The place of a message, but for its count of statements."""

    turn: Turn
    said: Said
    replies: Sequence[Said]
    prompt_words: frozenset[str]

    def __call__(self, statements: int) -> Place:
        is_user = self.said.role is Role.USER
        return Place(
            is_user=is_user,
            is_closing=not is_user and self.said is self.replies[-1],
            is_first=not is_user and self.said is self.replies[0],
            chars=len(self.said.text),
            statements=statements,
            messages=len(self.replies),
            has_edits=self.turn.has_edits,
            has_commit=any(a.commit for a in self.turn.actions),
            has_errors=any(a.is_error for a in self.turn.actions),
            prompt_words=frozenset() if is_user else self.prompt_words,
        )


def _overlap(option: _Option, other: _Option) -> bool:
    mine, theirs = option.passage, other.passage
    return option.said is other.said and mine.start < theirs.stop and theirs.start < mine.stop


def _candidate(option: _Option, context: ExtractionContext) -> Candidate:
    is_user = option.said.role is Role.USER
    bite = option.passage.bite
    kind = kind_of(bite, f"{option.first.topic} {option.first.lead}", is_user=is_user)
    return Candidate(
        kind=kind,
        summary=bite,
        content=_content(option),
        evidence=_evidence(option),
        turn_keys=(option.turn.key,),
        entities=entities_of(bite, option.turn),
        importance=importance_of(kind, option.quality, is_user=is_user),
        scope=Scope.GLOBAL if context.is_global else Scope.PROJECT,
        voice=Voice.USER_SAID if is_user else Voice.ASSISTANT_SAID,
        confidence=round(0.4 + 0.5 * option.quality, 3),
        quality=round(option.quality, 3),
    )


def _evidence(option: _Option) -> tuple[str, ...]:
    """The telling entry, then the prompt it answers, which the content quotes."""
    prompts = [s.uuid for s in option.turn.said if s.role is Role.USER]
    return tuple(dict.fromkeys(u for u in [option.said.uuid, *prompts] if u))


def _content(option: _Option) -> str:
    """The message from the telling line on, then what stands before it, then the prompt."""
    lines = option.said.text.splitlines()
    telling = "\n".join(lines[option.first.line :]).strip()[:TELLING_CHARS]
    parts = [telling]
    before = "\n".join(lines[: option.first.line]).strip()
    if before:
        parts.append("[before it] " + before[: TELLING_CHARS // 2])
    if option.said.role is Role.ASSISTANT and option.turn.prompt:
        parts.insert(1 if len(telling) < 700 else len(parts), "[asked] " + option.turn.prompt[:600])
    return "\n\n".join(parts)[:CONTENT_CHARS]
