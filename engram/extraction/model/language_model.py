"""Ask a language model: each question is reserved in the budget and sent once, and its answer is parsed."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from engram.errors import ExtractionError, ModelUnavailable, RetryLater
from engram.extraction.model.provider import (
    MAX_CALL_DOLLARS,
    MAX_CALL_TOKENS,
    UNAVAILABLE_SECONDS,
    Breaker,
    BrokenOff,
    Budget,
    ModelReply,
    ModelRequest,
    NotServed,
    Prose,
    Provider,
    Unfit,
    Usage,
)

Shape = TypeVar("Shape")

#: Maximum number of tokens of an answer.
MAX_ANSWER_TOKENS = 8_000
#: Number of times that a request is sent if its answer breaks off; after that, the answer counts as unreadable.
MAX_BROKEN_OFF = 3
#: Number of consecutive answers in prose or another form after which a model is not asked for a while: for a model that
#: has never used the requested form, and for one that has. A text that leads the model astray is found by halving the
#: request.
MAX_PROSE_AT_FIRST, MAX_PROSE = 2, 6
#: Number of answers that are cached, so that a repeated question is not paid for twice.
MAX_CACHED_ANSWERS = 128


@dataclass(frozen=True, slots=True)
class Question(Generic[Shape]):
    """A task that the model performs on a text."""

    #: Name of its calls in ``engram cost``.
    task: str
    #: System prompt.
    system: str
    #: JSON schema of the answer.
    schema: Mapping[str, Any]
    #: Parses the answer, even from a provider that follows no schema. Raises ValueError.
    read: Callable[[str], Shape]

    def request(self, text: str) -> ModelRequest:
        return ModelRequest(
            task=self.task, system=self.system, user=text, schema=self.schema, max_output_tokens=MAX_ANSWER_TOKENS
        )


class LanguageModel:
    """A provider behind the budget and the circuit breaker. For one thread at a time."""

    def __init__(self, provider: Provider, budget: Budget) -> None:
        self.provider = provider
        self.budget = budget
        #: Number of answers so far, not including cached ones.
        self.answers = 0
        self._breaker = Breaker(budget.store.clock)
        self._answers: OrderedDict[str, Any] = OrderedDict()
        self._broken_off: dict[str, int] = {}
        #: Number of answers in prose or another form since the last one in the requested form.
        self._prose = 0

    def ask(self, question: Question[Shape], text: str, project_id: int | None = None) -> Shape:
        """Return the answer to a question about a text; a repeated question is answered from the cache.

        Raises:
            BudgetReached: the call would exceed a cap; nothing was sent.
            RetryLater: a temporary fault of the server or the network.
            ModelUnavailable: no request can be served until the user takes action; the message says what to do.
            ExtractionError: the breaker is open; the message says why.
            Unfit: the provider refuses this request.
            Prose: the answer is not in the requested form; after several such answers, the breaker opens.
            ValueError: the answer cannot be read.
        """
        request = question.request(text)
        key = request_key(request)
        if key in self._answers:
            cached: Shape = self._answers[key]
            return cached
        while True:
            self._breaker.check()
            try:
                answer = question.read(self._reserve_and_call(key, request, project_id))
                break
            except Unfit:
                if not self.provider.simplify():
                    raise
            except Prose:
                self._note_prose()
                raise
        self._breaker.worked()
        self.answers += 1
        self._prose = 0
        self._answers[key] = answer
        if len(self._answers) > MAX_CACHED_ANSWERS:
            self._answers.popitem(last=False)
        return answer

    def close(self) -> None:
        """End a running call if possible, and start no further ones; may be called from any thread."""
        self.provider.close()

    def open_breaker(self, error: ExtractionError) -> ExtractionError:
        """Stop asking for a while, because the provider refuses all requests; return the error."""
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
        if reply.is_prose:
            raise Prose("the model did not answer in the requested form")
        if not reply.text.strip():
            raise ValueError("the model refused, or answered nothing")
        return reply.text

    def _broke_off(self, key: str, reason: str) -> Exception:
        """Return the error for a missing or incomplete answer, which is retried a few times, then unreadable."""
        if len(self._broken_off) > MAX_CACHED_ANSWERS:
            self._broken_off.clear()
        self._broken_off[key] = self._broken_off.get(key, 0) + 1
        if self._broken_off[key] >= MAX_BROKEN_OFF:
            return ValueError(f"the answer broke off {self._broken_off[key]} times ({reason})")
        return self._trouble(RetryLater(f"the model's server gave no complete answer ({reason})"))

    def _note_prose(self) -> None:
        self._prose += 1
        if self._prose >= (MAX_PROSE if self.answers else MAX_PROSE_AT_FIRST):
            self._prose = 0
            why = f"the model {self.provider.model} answers in prose or in another form: choose another model"
            self._trouble(ModelUnavailable(why), UNAVAILABLE_SECONDS)

    def _trouble(self, error: ExtractionError, seconds: float = 0.0) -> ExtractionError:
        self.budget.note_trouble(str(error))
        return self._breaker.trip(error, seconds)


def request_key(request: ModelRequest) -> str:
    """Return the identity of a request: a digest of the system prompt and the text."""
    return hashlib.sha256(f"{request.system}\0{request.user}".encode()).hexdigest()


def _note_usage(usage: Usage, reply: ModelReply) -> None:
    """Fill in the usage that the provider reports; the estimate is kept if it reports nothing usable.

    Some servers report zero tokens for every call, but a request has some, and so has an answer with a text.
    """
    read, written = reply.input_tokens, reply.output_tokens
    if _is_count(read, 1) and _is_count(written, 1 if reply.text else 0):
        usage.input_tokens, usage.output_tokens = int(read or 0), int(written or 0)
    if reply.dollars is not None and 0 <= reply.dollars <= MAX_CALL_DOLLARS:
        usage.dollars = reply.dollars


def _is_count(tokens: object, least: int) -> bool:
    """Return True for a plausible number of tokens."""
    return isinstance(tokens, int) and least <= tokens <= MAX_CALL_TOKENS
