"""The extractor that uses a language model; a batch with an unreadable answer is split."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from engram.enums import Refusal, Voice
from engram.errors import BudgetReached, ExtractionError, ModelUnavailable
from engram.extraction.candidate import ENDING_ACTIONS, PROPOSAL, Candidate, ExtractionContext, Extractor, NearMemory
from engram.extraction.model.grounding import ground, session_summary_of
from engram.extraction.model.language_model import LanguageModel, Question
from engram.extraction.model.model_answer import ANSWER_SCHEMA, ModelOutput, read_answer
from engram.extraction.model.model_request import SYSTEM_PROMPT, Ids, batches, halves, request_text, without_own
from engram.extraction.model.provider import Budget, Provider, Unfit
from engram.transcripts.turns import Turn

# -- Collect the proposals of an extraction so far, which later parts of the session are shown and may change. Pure.


@dataclass(slots=True)
class Proposals:
    #: None in place of a proposal that a later part withdrew.
    _all: list[Candidate | None] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        """The proposals that were not withdrawn, in order."""
        return [candidate for candidate in self._all if candidate is not None]

    def added_to(self, context: ExtractionContext, rolling_summary: str) -> ExtractionContext:
        """Return the context of the next part, with the proposals and the summary so far."""
        if not self._all:
            return context
        own = tuple(
            NearMemory(candidate.summary, f"{PROPOSAL}{number}", candidate.kind, at_ms=candidate.said_at_ms)
            for number, candidate in enumerate(self._all)
            if candidate is not None and candidate.action not in ("same", "retracts")
        )
        return replace(
            context,
            rolling_summary=rolling_summary,
            known=(*context.known, *(memory.summary for memory in own)),
            known_of_user=(
                *context.known_of_user,
                *(made.summary for made in self._all if made is not None and made.voice is Voice.USER),
            ),
            own=(*context.own, *own),
        )

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Add the proposals of the next part, and apply their actions to earlier proposals."""
        for candidate in candidates:
            number = _number(candidate.target)
            earlier = self._all[number] if number is not None and number < len(self._all) else None
            if number is None:
                self._all.append(candidate)
            elif earlier is None:
                if candidate.action not in ("same", "retracts"):
                    self._all.append(replace(candidate, action="new", target=""))
            elif candidate.action == "same":
                self._all[number] = replace(
                    earlier,
                    evidence=tuple(dict.fromkeys([*earlier.evidence, *candidate.evidence])),
                    turn_keys=tuple(dict.fromkeys([*earlier.turn_keys, *candidate.turn_keys])),
                )
            elif candidate.action in ENDING_ACTIONS:
                self._all[number] = None
                if candidate.action != "retracts":
                    # The final proposal inherits the effect of the earlier one on an existing memory.
                    self._all.append(replace(candidate, action=earlier.action, target=earlier.target))
                elif earlier.action != "new" and earlier.action != "same":
                    self._all.append(replace(candidate, target=earlier.target))


def _number(target: str) -> int | None:
    """Return the index of the proposal that a target refers to; None for a stored memory."""
    return int(target[len(PROPOSAL) :]) if target.startswith(PROPOSAL) else None


logger = logging.getLogger(__name__)

#: Maximum number of unreadable answers per proposal; after that, the local extractor processes the rest.
MAX_UNREADABLE_ANSWERS = 8
_QUESTION = Question("extract", SYSTEM_PROMPT, ANSWER_SCHEMA, read_answer)


class ModelExtractor:
    """Uses a provider's model or, at a cap and for text that the model can't read, another extractor."""

    def __init__(self, name: str, provider: Provider, budget: Budget, fallback: Extractor) -> None:
        """Prepare the extractor; nothing is sent before the first proposal.

        Args:
            name: stored with each memory, such as ``openai-1``.
            fallback: the extractor used at a cap, and for text that the model can't read.
        """
        self.name = name
        #: The model that is used, also for other questions.
        self.model = LanguageModel(provider, budget)
        self._budget = budget
        self._fallback = fallback
        self._unreadable = 0
        #: Why the fallback was used, for status.
        self._reason = ""
        #: The summary so far of the session of the last proposal.
        self.rolling_summary = ""
        #: Keys of those turns of the last proposal that the model did not read.
        self.unread: set[str] = set()
        #: The reasons why proposals of the last extraction were refused, one for each.
        self.refused: list[Refusal] = []
        self._is_strict = False

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """See ``Extractor.propose``.

        Raises:
            RetryLater: a temporary fault of the server or the network.
            ExtractionError: the provider refuses every request; the message says why.
        """
        self._begin(context)
        answered = self.model.answers
        proposals = Proposals()
        for batch in batches(without_own(turns)):
            proposals.add(self._propose_batch(batch, proposals.added_to(context, self.rolling_summary)))
        if self.model.answers > answered:
            self._budget.note_answers(self.model.answers - answered)
        if self._reason:
            self._budget.note_trouble(self._reason)
        room = max(0, context.session_cap - context.kept_before)
        self.refused += [Refusal.FULL] * len(proposals.candidates[room:])
        return proposals.candidates[:room]

    def propose_again(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """Propose without the fallback. Text that the model can't read yields nothing; ``unread`` contains its turns.

        Raises:
            BudgetReached: a cap has been reached.
            ModelUnavailable: no request can be served until the user acts.
            RetryLater: a temporary fault of the server or the network.
            ExtractionError: the provider refuses every request; the message says why.
        """
        self._is_strict = True
        try:
            return self.propose(turns, context)
        finally:
            self._is_strict = False

    def propose_once(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """Propose with a single call to which the user agreed; nothing is halved, retried or left to the fallback.

        Args:
            turns: the turns of one request, as divided by ``batches``.

        Raises:
            BudgetReached: a cap has been reached; nothing was sent.
            ModelUnavailable: no request can be served until the user acts.
            RetryLater: a temporary fault of the server or the network.
            ExtractionError: the answer can't be read, or the provider refuses the request.
        """
        self._begin(context)
        text, ids = request_text(without_own(turns), context)
        try:
            output = self.model.ask(_QUESTION, text, context.project_id)
        except ValueError as error:
            raise ExtractionError(f"the answer can't be used: {error}") from error
        self._budget.note_answers(1)
        return self._grounded(output, ids, turns, context)[: max(0, context.session_cap - context.kept_before)]

    def _begin(self, context: ExtractionContext) -> None:
        self.rolling_summary, self._reason = context.rolling_summary, ""
        self.unread, self.refused, self._unreadable = set(), [], 0

    def _propose_batch(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        text, ids = request_text(turns, context)
        if self._unreadable >= MAX_UNREADABLE_ANSWERS:
            return self._propose_locally(turns, context)
        try:
            output = self.model.ask(_QUESTION, text, context.project_id)
        except (BudgetReached, ModelUnavailable) as refusal:
            self._reason = str(refusal)
            if self._is_strict:
                self._budget.note_trouble(self._reason)
                raise
            return self._propose_locally(turns, context)
        except ValueError as error:
            return self._split(turns, context, error)
        return self._grounded(output, ids, turns, context)

    def _grounded(
        self, output: ModelOutput, ids: Ids, turns: Sequence[Turn], context: ExtractionContext
    ) -> list[Candidate]:
        self.rolling_summary = session_summary_of(output, turns, self.rolling_summary)
        grounded = ground(output, ids, context)
        self.refused += grounded.refused
        return grounded.candidates

    def _split(self, turns: Sequence[Turn], context: ExtractionContext, error: ValueError) -> list[Candidate]:
        """Halve a batch with an unreadable answer; a single text is passed to the fallback."""
        self._unreadable += 1
        parts = halves(turns)
        if parts is not None:
            first = self._propose_batch(parts[0], context)
            return first + self._propose_batch(parts[1], replace(context, rolling_summary=self.rolling_summary))
        if isinstance(error, Unfit) and not self.model.answers:
            raise self.model.open_breaker(ExtractionError(f"{error}; it refused every request"))
        logger.warning("action=set_aside turn=%s reason=%s", turns[0].key, error)
        self._reason = f"the local extractor read a text of turn {turns[0].key}: {error}"
        return self._propose_locally(turns, context)

    def _propose_locally(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        self.unread |= {turn.key for turn in turns}
        if self._is_strict:
            return []
        return [
            replace(candidate, extractor=self._fallback.name) for candidate in self._fallback.propose(turns, context)
        ]
