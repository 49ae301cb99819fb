"""The extractor that asks a language model: bounded calls, no retries of its own, poison split and set aside."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from engram.errors import BudgetReached, ExtractionError, RetryLater
from engram.extraction.answer import SYSTEM_PROMPT, Answer, candidates_of, request_text
from engram.extraction.budget import Budget
from engram.extraction.candidate import Candidate
from engram.extraction.protocol import ExtractionContext, Extractor
from engram.settings import Settings
from engram.transcripts.record import Turn

logger = logging.getLogger(__name__)

#: Most characters of one request; more turns make more requests.
REQUEST_CHARACTERS = 48_000
#: Most tokens of one answer.
ANSWER_TOKENS = 2000
#: HTTP states that will not get better by waiting: the key, the model or the request is wrong.
_HOPELESS = (400, 401, 403, 404, 422)


class OpenAIExtractor:
    """Asks the model that the settings name; at a cap, or for what the model cannot read, the local one goes on."""

    name = "openai-1"

    def __init__(
        self, settings: Settings, budget: Budget, fallback: Extractor, *, api_key: str = "",
        make_client: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        """Prepare; the client is made at the first call.

        Args:
            settings: model, server, time limit and caps.
            budget: without a reservation there is no call.
            fallback: proposes where a cap is reached or a batch is poison.
            api_key: the key; "" for servers that need none.
            make_client: makes the client, for tests.
        """
        self._settings = settings
        self._budget = budget
        self._fallback = fallback
        self._make_client = make_client or (lambda: _openai_client(settings, api_key))
        self._client: Any = None
        #: What the last session is about so far, for the next request.
        self.rolling_summary = ""
        #: Why the local extractor went on last time; "" where it did not.
        self.fallback_reason = ""

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """Candidates of one session's turns.

        Raises:
            RetryLater: a passing fault of the server or the network.
            ExtractionError: the server refuses for good; the message says why.
        """
        self.rolling_summary, self.fallback_reason = context.rolling_summary, ""
        found: list[Candidate] = []
        for batch in _batches(turns):
            found += self._propose_batch(batch, context)
        return found

    def _propose_batch(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        text, ids = request_text(turns, context)
        if not ids:
            return []
        try:
            answer = self._ask(text, context)
        except BudgetReached as reached:
            self.fallback_reason = str(reached)
            return self._fallback.propose(turns, context)
        except ValueError as error:  # the answer cannot be read
            return self._split(turns, context, error)
        self.rolling_summary = answer.rolling_summary[:1000] or self.rolling_summary
        return candidates_of(answer, ids, context)

    def _split(self, turns: Sequence[Turn], context: ExtractionContext, error: ValueError) -> list[Candidate]:
        """Halve a batch whose answer cannot be read; a single turn that poisons it goes to the local extractor."""
        if len(turns) > 1:
            half = len(turns) // 2
            return self._propose_batch(turns[:half], context) + self._propose_batch(turns[half:], context)
        logger.warning("unreadable answer for turn %s: %s", turns[0].key, type(error).__name__)
        self.fallback_reason = f"the model's answer for a turn could not be read ({type(error).__name__})"
        return self._fallback.propose(turns, context)

    def _ask(self, text: str, context: ExtractionContext) -> Answer:
        """One call. ValueError: the answer cannot be read."""
        import openai

        self._client = self._client or self._make_client()
        with self._budget.call("extract", SYSTEM_PROMPT + text, ANSWER_TOKENS, context.project_id) as usage:
            try:
                answer, usage.input_tokens, usage.output_tokens = self._call(
                    text, usage.input_tokens, usage.output_tokens
                )
                return answer
            except openai.APIStatusError as error:
                kind = ExtractionError if error.status_code in _HOPELESS else RetryLater
                raise kind(f"the model's server answered {error.status_code}") from error
            except openai.APIConnectionError as error:
                raise RetryLater("the model's server cannot be reached") from error
            except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
                raise ValueError(type(error).__name__) from error
            except openai.OpenAIError as error:
                raise RetryLater(f"the call failed: {type(error).__name__}") from error

    def _call(self, text: str, input_tokens: int, output_tokens: int) -> tuple[Answer, int, int]:
        messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": text}]
        if self._settings.llm_base_url:
            done = self._client.chat.completions.create(
                model=self._settings.llm_model, messages=messages, max_tokens=ANSWER_TOKENS,
                response_format={"type": "json_object"},
            )  # fmt: skip
            used = done.usage
            if not done.choices:
                raise ValueError("no answer")
            answer = read_answer(done.choices[0].message.content or "")
            return (
                answer,
                getattr(used, "prompt_tokens", input_tokens),
                getattr(used, "completion_tokens", output_tokens),
            )
        got = self._client.responses.parse(
            model=self._settings.llm_model, input=messages, text_format=Answer, max_output_tokens=ANSWER_TOKENS
        )
        if not isinstance(got.output_parsed, Answer):
            raise ValueError("no answer")
        used = got.usage
        return (
            got.output_parsed,
            getattr(used, "input_tokens", input_tokens),
            getattr(used, "output_tokens", output_tokens),
        )


def read_answer(text: str) -> Answer:
    """The answer in a text, also inside a code fence.

    Raises:
        ValueError: there is none of the right shape.
    """
    start, stop = text.find("{"), text.rfind("}")
    try:
        return Answer.model_validate(json.loads(text[start : stop + 1]))
    except (ValidationError, RecursionError) as error:
        raise ValueError("the answer has another shape") from error


def _batches(turns: Sequence[Turn]) -> list[list[Turn]]:
    """Turns in requests of at most ``REQUEST_CHARACTERS``."""
    batches: list[list[Turn]] = [[]]
    size = 0
    for turn in turns:
        length = sum(min(len(said.text), 3000) for said in turn.said)
        if batches[-1] and size + length > REQUEST_CHARACTERS:
            batches.append([])
            size = 0
        batches[-1].append(turn)
        size += length
    return [batch for batch in batches if batch]


def _openai_client(settings: Settings, api_key: str) -> Any:
    """openai's client: one try, a time limit, no environment beside the key."""
    import openai

    return openai.OpenAI(
        api_key=api_key or "none",
        base_url=settings.llm_base_url or None,
        timeout=settings.llm_timeout_seconds,
        max_retries=0,
    )
