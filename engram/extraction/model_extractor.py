"""The extractor that asks a language model: bounded calls, no retries of its own, poison split and set aside."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from engram.errors import BudgetReached, ExtractionError, ModelUnavailable
from engram.extraction.answer import ANSWER_SCHEMA, read_answer, rolling_summary_of
from engram.extraction.budget import Budget
from engram.extraction.candidate import Candidate
from engram.extraction.grounding import candidates_of
from engram.extraction.language_model import LanguageModel, Question
from engram.extraction.proposals import Proposals
from engram.extraction.protocol import ExtractionContext, Extractor
from engram.extraction.provider import Provider, Unfit
from engram.extraction.request import SYSTEM_PROMPT, batches, halves, request_text, without_own
from engram.transcripts.record import Turn

logger = logging.getLogger(__name__)

#: Answers of one proposal that may be unreadable; then the local extractor takes the rest.
MAX_UNREADABLE_ANSWERS = 16
_QUESTION = Question("extract", SYSTEM_PROMPT, ANSWER_SCHEMA, read_answer)


class ModelExtractor:
    """Asks a provider's model; at a cap, or for what the model cannot read, the local extractor goes on."""

    def __init__(self, name: str, provider: Provider, budget: Budget, fallback: Extractor) -> None:
        """Prepare; nothing is sent before the first proposal.

        Args:
            name: stored with each episode, such as ``openai-1``.
            provider: sends the requests.
            budget: without a reservation there is no call.
            fallback: proposes where a cap is reached or a text is poison.
        """
        self.name = name
        #: The model that is asked; for other questions too.
        self.model = LanguageModel(provider, budget)
        self._budget = budget
        self._fallback = fallback
        self._unreadable = 0
        #: Why the local extractor stood in, for status.
        self._reason = ""
        #: What the session of the last proposal is about so far.
        self.rolling_summary = ""

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """See ``Extractor.propose``.

        Raises:
            RetryLater: a passing fault of the server or the network.
            ExtractionError: nothing that it was sent was right; the message says why.
        """
        self.rolling_summary, self._reason = context.rolling_summary, ""
        self._unreadable, answered = 0, self.model.answers
        proposals = Proposals()
        for batch in batches(without_own(turns)):
            proposals.add(self._propose_batch(batch, proposals.told_in(context, self.rolling_summary)))
        if self.model.answers > answered:
            self._budget.note_answers(self.model.answers - answered)
        if self._reason:
            self._budget.note_trouble(self._reason)
        return proposals.candidates[: max(0, context.session_cap - context.kept_before)]

    def _propose_batch(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        text, ids = request_text(turns, context)
        if self._unreadable >= MAX_UNREADABLE_ANSWERS:
            return self._propose_locally(turns, context)
        try:
            answer = self.model.ask(_QUESTION, text, context.project_id)
        except (BudgetReached, ModelUnavailable) as refusal:
            self._reason = str(refusal)
            return self._propose_locally(turns, context)
        except ValueError as error:
            return self._split(turns, context, error)
        self.rolling_summary = rolling_summary_of(answer) or self.rolling_summary
        return candidates_of(answer, ids, context)

    def _split(self, turns: Sequence[Turn], context: ExtractionContext, error: ValueError) -> list[Candidate]:
        """Halve a batch whose answer cannot be read; a single text that poisons it goes to the local extractor."""
        self._unreadable += 1
        parts = halves(turns)
        if parts is not None:
            first = self._propose_batch(parts[0], context)
            return first + self._propose_batch(parts[1], replace(context, rolling_summary=self.rolling_summary))
        if isinstance(error, Unfit) and not self.model.answers:
            raise self.model.leave_alone(ExtractionError(f"{error}; nothing it was sent was right"))
        logger.warning("action=set_aside turn=%s reason=%s", turns[0].key, error)
        self._reason = f"a text of turn {turns[0].key} was left to the local extractor: {error}"
        return self._propose_locally(turns, context)

    def _propose_locally(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        return [replace(one, extractor=self._fallback.name) for one in self._fallback.propose(turns, context)]
