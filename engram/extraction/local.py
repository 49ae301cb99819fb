"""The local extractor: it proposes the best passages of each turn, without a key or a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engram.extraction.candidate import Candidate
from engram.extraction.compose import candidate
from engram.extraction.decisions import decisions, without_dialogs
from engram.extraction.fixes import fix_episodes
from engram.extraction.protocol import ExtractionContext
from engram.extraction.select import Chooser, Option
from engram.extraction.weights import WEIGHTS
from engram.text.content_words import content_words
from engram.transcripts.record import Role, TextBlock, Turn

#: Minimum quality, 0 to 1, of a candidate.
MIN_QUALITY = 0.18


class LocalExtractor:
    """Chooses passages by a small logistic model; ``docs/extraction.md`` says what it was measured on."""

    name = "local-1"
    is_repeatable = True

    def __init__(self, weights: Mapping[str, float] | None = None, min_quality: float = MIN_QUALITY) -> None:
        """Prepare.

        Args:
            weights: Weights of the model by feature name; the shipped ones by default.
            min_quality: Minimum quality, 0 to 1, of a candidate.
        """
        self._chooser = Chooser(weights if weights is not None else WEIGHTS, min_quality)

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """See ``Extractor.propose``."""
        room = max(0, context.session_cap - context.kept_before)
        decided = [decision for turn in turns for decision in decisions(turn)][:room]
        turns = [without_dialogs(with_refusals(turn)) for turn in turns]
        taken = [content_words(bite) for bite in context.known]
        episodes = fix_episodes([*context.before, *turns])
        chosen: list[Option] = []
        for turn, following in zip(turns, [*turns, context.following][1:], strict=True):
            ended_here = [e for e in episodes if e.turn_key == turn.key]
            chosen.extend(self._chooser.of_turn(turn, following, ended_here, taken, context.project))
        best = sorted(range(len(chosen)), key=lambda i: -chosen[i].quality)[: room - len(decided)]
        return [*decided, *(candidate(chosen[i], is_global=context.is_global) for i in sorted(best))]


def with_refusals(turn: Turn) -> Turn:
    """Return the turn with comments on refused calls as words of the user; newer turns have them already."""
    words = tuple(
        TextBlock(uuid=a.result_uuid or a.uuid, role=Role.USER, text=a.refusal) for a in turn.actions if a.refusal
    )
    return replace(turn, said=(*turn.said, *words)) if words else turn
