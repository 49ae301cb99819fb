"""The way to a language model: each question is reserved in the budget, sent once, and read."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from engram.errors import BadRequest, ExtractionError, ModelUnavailable, RetryLater
from engram.extraction.model.provider import (
    MAX_CALL_DOLLARS,
    MAX_CALL_TOKENS,
    OWN_SERVER_PRICE,
    UNAVAILABLE_SECONDS,
    Breaker,
    BrokenOff,
    Budget,
    ModelReply,
    ModelRequest,
    NotServed,
    Price,
    Prose,
    Provider,
    Unfit,
    Usage,
)
from engram.system.atomic import write_atomic

Shape = TypeVar("Shape")

#: Maximum number of tokens of an answer.
MAX_ANSWER_TOKENS = 8_000
#: How often a request is sent whose answer broke off; after that it counts as unreadable.
MAX_BROKEN_OFF = 3
#: Number of answers in prose in a row after which a model is not asked for a while: one that never kept the form, and
#: one that did before; a text that leads it astray is found by halving.
MAX_PROSE_AT_FIRST, MAX_PROSE = 2, 6
#: Number of answers that are cached, so that a repeated question is not paid twice.
MAX_CACHED_ANSWERS = 128


@dataclass(frozen=True, slots=True)
class Question(Generic[Shape]):
    """A task for the model on a text."""

    #: Name of its calls in ``engram cost``.
    task: str
    #: System prompt.
    system: str
    #: JSON schema of the answer.
    schema: Mapping[str, Any]
    #: Reads the answer, also of a provider that follows no schema. Raises ValueError.
    read: Callable[[str], Shape]

    def request(self, text: str) -> ModelRequest:
        """Return the request for a text."""
        return ModelRequest(
            task=self.task, system=self.system, user=text, schema=self.schema, max_output_tokens=MAX_ANSWER_TOKENS
        )


class LanguageModel:
    """A provider behind the budget and the circuit breaker. One thread at a time."""

    def __init__(self, provider: Provider, budget: Budget) -> None:
        """Prepare.

        Args:
            provider: sends the requests.
            budget: reserves each call.
        """
        self.provider = provider
        self.budget = budget
        #: Number of answers so far, cached ones not included.
        self.answers = 0
        self._breaker = Breaker(budget.store.clock)
        self._answers: OrderedDict[str, Any] = OrderedDict()
        self._broken_off: dict[str, int] = {}
        #: Number of answers in prose since the last one in the form that was asked for.
        self._prose = 0

    def ask(self, question: Question[Shape], text: str, project_id: int | None = None) -> Shape:
        """Return the answer to a question about a text; a repeated question is answered from the cache.

        Raises:
            BudgetReached: the call would exceed a cap; nothing was sent.
            RetryLater: a temporary fault of the server or the network.
            ModelUnavailable: no request can be served until the user acts; the message says what to do.
            ExtractionError: the breaker is open; the message says why.
            Unfit: the provider refuses this request.
            Prose: the answer has no form; after some of them the breaker opens.
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
        """End a running call if possible, and start no other; from any thread."""
        self.provider.close()

    def open_breaker(self, error: ExtractionError) -> ExtractionError:
        """Ask nothing for a while, since the provider refuses every request; returns the error."""
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
            raise Prose("the model did not answer in the form that was asked for")
        if not reply.text.strip():
            raise ValueError("the model refused, or answered nothing")
        return reply.text

    def _broke_off(self, key: str, reason: str) -> Exception:
        """Return the error of a missing or incomplete answer: tried again a few times, then unreadable."""
        if len(self._broken_off) > MAX_CACHED_ANSWERS:
            self._broken_off.clear()
        self._broken_off[key] = self._broken_off.get(key, 0) + 1
        if self._broken_off[key] >= MAX_BROKEN_OFF:
            return ValueError(f"the answer broke off {self._broken_off[key]} times ({reason})")
        return self._trouble(RetryLater(f"the model's server gave no whole answer ({reason})"))

    def _note_prose(self) -> None:
        self._prose += 1
        if self._prose >= (MAX_PROSE if self.answers else MAX_PROSE_AT_FIRST):
            self._prose = 0
            why = f"the model {self.provider.model} answers in prose instead of JSON: choose another model"
            self._trouble(ModelUnavailable(why), UNAVAILABLE_SECONDS)

    def _trouble(self, error: ExtractionError, seconds: float = 0.0) -> ExtractionError:
        self.budget.note_trouble(str(error))
        return self._breaker.trip(error, seconds)


def request_key(request: ModelRequest) -> str:
    """Return the identity of a request: a digest of the system prompt and the text."""
    return hashlib.sha256(f"{request.system}\0{request.user}".encode()).hexdigest()


def _note_usage(usage: Usage, reply: ModelReply) -> None:
    """Fill in the usage that the provider reports; the estimate stays if it reports nothing usable."""
    tokens = (reply.input_tokens, reply.output_tokens)
    if all(isinstance(count, int) and 0 <= count <= MAX_CALL_TOKENS for count in tokens):
        usage.input_tokens, usage.output_tokens = int(tokens[0] or 0), int(tokens[1] or 0)
    if reply.dollars is not None and 0 <= reply.dollars <= MAX_CALL_DOLLARS:
        usage.dollars = reply.dollars


# -- The provider of recorded answers; a request without one is written to a file to be answered.

#: Number of digits of a request's digest in the names of its files.
KEY_DIGITS = 20


class Unanswered(ExtractionError):
    """There is no recorded answer to this request; it was written to a file to be answered."""


class RecordedProvider:
    """Answers from a folder, by a digest of the request.

    Answers are in ``NAME.jsonl`` (a line is ``{"key", "answer", "model", "date"}``) or in ``KEY.answer.json``, as a
    model gave them. A request without an answer is written to ``KEY.request.txt``, its system prompt to
    ``system.TASK.txt``.
    """

    model = "recorded"

    def __init__(self, folder: Path) -> None:
        """Read the recorded answers. Raises BadRequest."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        #: Key → text of the answer.
        self.answers = dict(_read(folder))
        #: Keys that were asked for, in order; True if there is an answer.
        self.asked: dict[str, bool] = {}

    @property
    def price(self) -> Price:
        """See ``Provider.price``."""
        return OWN_SERVER_PRICE

    def close(self) -> None:
        """See ``Provider.close``: there is nothing to end."""

    def complete(self, request: ModelRequest) -> ModelReply:
        """See ``Provider.complete``. Raises Unanswered."""
        return self.reply(request_key(request)[:KEY_DIGITS], request)

    def reply(self, key: str, request: ModelRequest) -> ModelReply:
        """Return the recorded answer of a key, or write the request to be answered. Raises Unanswered."""
        self.asked[key] = key in self.answers
        if key not in self.answers:
            write_atomic(self.folder / f"system.{request.task}.txt", request.system.encode())
            write_atomic(self.folder / f"{key}.request.txt", request.user.encode())
            raise Unanswered(f"no answer is recorded for request {key}")
        return ModelReply(text=self.answers[key], model=self.model)

    def simplify(self) -> bool:
        """See ``Provider.simplify``."""
        return False


def _read(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield key and text of each answer."""
    try:
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                yield str(record["key"])[:KEY_DIGITS], _text(record["answer"])
        for path in sorted(folder.glob("*.answer.json")):
            yield path.name.partition(".")[0], path.read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{folder} has an answer that cannot be read: {error!r}") from error


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
