"""One bounded question to a language model: reserved, asked once, read or refused; nothing else reaches a provider."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from engram.errors import ExtractionError, ModelUnavailable, RetryLater
from engram.extraction.breaker import UNAVAILABLE_SECONDS, Breaker
from engram.extraction.budget import Budget, Usage
from engram.extraction.provider import (
    MAX_CALL_DOLLARS,
    MAX_CALL_TOKENS,
    BrokenOff,
    ModelReply,
    ModelRequest,
    NotServed,
    Provider,
    Unfit,
)

Shape = TypeVar("Shape")

#: Most tokens of one answer.
MAX_ANSWER_TOKENS = 8_000
#: So often a request is sent again whose answer broke off; then it counts as unreadable.
MAX_BROKEN_OFF = 3
#: Answers that are remembered, so that a question that is asked anew is not paid twice.
MAX_REMEMBERED = 128


@dataclass(frozen=True, slots=True)
class Question(Generic[Shape]):
    """What the model is to do with a text."""

    #: Under this name ``engram cost`` counts its calls.
    task: str
    #: What the model is told before the text.
    system: str
    #: JSON schema of the answer.
    schema: Mapping[str, Any]
    #: Reads the answer, also of a provider that holds to no schema. Raises ValueError.
    read: Callable[[str], Shape]

    def request(self, text: str) -> ModelRequest:
        """The request that asks this about a text."""
        return ModelRequest(
            task=self.task, system=self.system, user=text, schema=self.schema, max_output_tokens=MAX_ANSWER_TOKENS
        )


class LanguageModel:
    """A provider behind caps, ledger and breaker. One thread at a time."""

    def __init__(self, provider: Provider, budget: Budget) -> None:
        """Prepare.

        Args:
            provider: sends the requests.
            budget: without a reservation there is no call.
        """
        self.provider = provider
        self.budget = budget
        #: Answers so far, those that were remembered not counted.
        self.answers = 0
        self._breaker = Breaker(budget.store.clock)
        self._answers: OrderedDict[str, Any] = OrderedDict()
        self._broken_off: dict[str, int] = {}

    def ask(self, question: Question[Shape], text: str, project_id: int | None = None) -> Shape:
        """The answer to a question about a text; the same one again is not asked again.

        Raises:
            BudgetReached: a cap would be passed; nothing was sent.
            RetryLater: a passing fault of the server or the network.
            ModelUnavailable: no request can be served until the user acts; the message says what to do.
            ExtractionError: the provider was told to be left alone; the message says why.
            Unfit: the provider refuses this request.
            ValueError: the answer cannot be read.
        """
        request = question.request(text)
        key = request_key(request)
        if key in self._answers:
            remembered: Shape = self._answers[key]
            return remembered
        while True:
            self._breaker.check()
            try:
                answer = question.read(self._reserve_and_call(key, request, project_id))
                break
            except Unfit:
                if not self.provider.simplify():
                    raise
        self._breaker.worked()
        self.answers += 1
        self._answers[key] = answer
        if len(self._answers) > MAX_REMEMBERED:
            self._answers.popitem(last=False)
        return answer

    def close(self) -> None:
        """End a call that is under way, if that can be done, and begin none; from any thread."""
        self.provider.close()

    def leave_alone(self, error: ExtractionError) -> ExtractionError:
        """Nothing that is sent is right: ask no more for a while; returns the error."""
        return self._breaker.trip(error, UNAVAILABLE_SECONDS)

    def _reserve_and_call(self, key: str, request: ModelRequest, project_id: int | None) -> str:
        with self.budget.call(
            request.task,
            request.system + request.user,
            request.max_output_tokens,
            project_id,
            model=self.provider.model,
            price=self.provider.price,
        ) as usage:
            try:
                reply = self.provider.complete(request)
            except Unfit:
                usage.was_free()
                raise
            except NotServed as error:
                usage.was_free()
                trouble = RetryLater(str(error)) if error.is_passing else ModelUnavailable(str(error))
                raise self._trouble(trouble, error.wait_seconds) from error
            except BrokenOff as error:
                raise self._broke_off(key, str(error)) from error
            _note_usage(usage, reply)
        if not reply.text.strip():
            raise ValueError("the model refused, or answered nothing")
        return reply.text

    def _broke_off(self, key: str, reason: str) -> Exception:
        """The answer is none or not whole: tried again a few times, then it cannot be read."""
        if len(self._broken_off) > MAX_REMEMBERED:
            self._broken_off.clear()
        self._broken_off[key] = self._broken_off.get(key, 0) + 1
        if self._broken_off[key] >= MAX_BROKEN_OFF:
            return ValueError(f"the answer broke off {self._broken_off[key]} times ({reason})")
        return self._trouble(RetryLater(f"the model's server gave no whole answer ({reason})"))

    def _trouble(self, error: ExtractionError, seconds: float = 0.0) -> ExtractionError:
        self.budget.note_trouble(str(error))
        return self._breaker.trip(error, seconds)


def request_key(request: ModelRequest) -> str:
    """Identity of a request: a digest of what the model is told and of the text."""
    return hashlib.sha256(f"{request.system}\0{request.user}".encode()).hexdigest()


def _note_usage(usage: Usage, reply: ModelReply) -> None:
    """What the provider says that the call took; the estimate stands where it says nothing usable."""
    tokens = (reply.input_tokens, reply.output_tokens)
    if all(isinstance(count, int) and 0 <= count <= MAX_CALL_TOKENS for count in tokens):
        usage.input_tokens, usage.output_tokens = int(tokens[0] or 0), int(tokens[1] or 0)
    if reply.dollars is not None and 0 <= reply.dollars <= MAX_CALL_DOLLARS:
        usage.dollars = reply.dollars
