"""One bounded question to a language model: reserved, asked once, read or refused; nothing else reaches a server."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from engram.errors import ExtractionError, RetryLater
from engram.extraction.bounded_http import LONGEST_CALL_SECONDS, ending, make_client
from engram.extraction.breaker import HOPELESS_SECONDS, Breaker
from engram.extraction.budget import Budget, Usage
from engram.settings import Settings

if TYPE_CHECKING:
    import httpx2

Shape = TypeVar("Shape", bound=BaseModel)

#: Tokens of one answer.
ANSWER_TOKENS = 4_000
#: So often a request is sent again whose answer broke off; then it counts as unreadable.
MOST_BROKEN = 3
#: Answers that are remembered, so that a question that is asked anew is not paid twice.
_REMEMBERED = 128
_OPENAI = "https://api.openai.com/v1"
#: States that say that the request itself cannot be served; a smaller one may be.
_UNFIT = (400, 413, 422)
#: States that no waiting mends: the key, the model or the address is wrong.
_HOPELESS = (401, 402, 403, 404, 405)
#: Ways to ask other servers for JSON; the first that the server takes is kept.
_FORMATS: tuple[Callable[[type[BaseModel]], Mapping[str, Any]], ...] = (
    lambda shape: {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "memories", "schema": shape.model_json_schema()},
        }
    },
    lambda shape: {"response_format": {"type": "json_object"}},
    lambda shape: {},
)


class Unfit(ValueError):
    """The server refused the request itself."""


@dataclass(frozen=True, slots=True)
class Question(Generic[Shape]):
    """What the model is to do with a text."""

    #: Under this name ``engram cost`` counts its calls.
    task: str
    #: What the model is told before the text.
    system: str
    #: The shape of the answer.
    shape: type[Shape]
    #: Reads the answer of a server that holds to no shape. Raises ValueError.
    read: Callable[[str], Shape]


class LanguageModel:
    """The model that the settings name. One thread at a time."""

    def __init__(
        self, settings: Settings, budget: Budget, *, api_key: str = "", transport: httpx2.BaseTransport | None = None,
        total_seconds: float | None = None,
    ) -> None:  # fmt: skip
        """Prepare; the client is made at the first call.

        Args:
            settings: model, server, time limit and caps.
            budget: without a reservation there is no call.
            api_key: the key; "" for servers that need none.
            transport: carries the requests, for tests; None is the network.
            total_seconds: longest call; by default twice the time limit of the settings, at most 60 s.
        """
        self.settings = settings
        self.budget = budget
        #: Answers so far, those that were remembered not counted.
        self.answers = 0
        self._breaker = Breaker(budget.store.clock)
        total = total_seconds or min(2 * settings.llm_timeout_seconds, LONGEST_CALL_SECONDS)
        self._total_seconds = total
        self._make_client: Callable[[], tuple[Any, httpx2.Client]] = lambda: _openai_client(
            settings, api_key, total, transport
        )
        self._client: tuple[Any, httpx2.Client] | None = None
        self._answers: OrderedDict[str, Any] = OrderedDict()
        self._broken: dict[str, int] = {}
        self._format = 0

    def ask(self, question: Question[Shape], text: str, project_id: int | None = None) -> Shape:
        """The answer to a question about a text; the same one again is not asked again.

        Raises:
            BudgetReached: a cap would be passed; nothing was sent.
            RetryLater: a passing fault of the server or the network.
            ExtractionError: the server refuses for good, or was told to be left alone; the message says why.
            Unfit: the server refuses this request.
            ValueError: the answer cannot be read.
        """
        key = hashlib.sha256(f"{question.system}\0{text}".encode()).hexdigest()
        if key in self._answers:
            found: Shape = self._answers[key]
            return found
        while True:
            self._breaker.check()
            try:
                answer = self._reserve_and_call(key, question, text, project_id)
                break
            except Unfit:
                if not self.settings.llm_base_url or self.answers or self._format + 1 >= len(_FORMATS):
                    raise
                self._format += 1
        self._breaker.worked()
        self.answers += 1
        self._answers[key] = answer
        if len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        return answer

    def leave_alone(self, error: ExtractionError) -> ExtractionError:
        """Nothing that is sent is right: ask no more for a while; returns the error."""
        return self._breaker.trip(error, HOPELESS_SECONDS)

    def _reserve_and_call(self, key: str, question: Question[Shape], text: str, project_id: int | None) -> Shape:
        import httpx2
        import openai

        with self.budget.call(question.task, question.system + text, ANSWER_TOKENS, project_id) as usage:
            try:
                return self._call(question, text, usage)
            except openai.APIStatusError as error:
                usage.was_free()
                raise self._refused(error) from error
            except openai.APIConnectionError as error:
                if isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout):
                    usage.was_free()
                    raise self._trouble(RetryLater("the model's server cannot be reached")) from error
                raise self._broke_off(key, type(error.__cause__ or error).__name__) from error
            except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
                raise ValueError(f"the model gave no whole answer ({type(error).__name__})") from error
            except (openai.OpenAIError, httpx2.HTTPError, AttributeError, TypeError, KeyError) as error:
                raise self._broke_off(key, type(error).__name__) from error

    def _call(self, question: Question[Shape], text: str, usage: Usage) -> Shape:
        self._client = self._client or self._make_client()
        client, http = self._client
        try:
            with ending(http, self._total_seconds) as has_ended:
                if self.settings.llm_base_url:
                    return self._chat(client, question, text, usage)
                return self._respond(client, question, text, usage)
        finally:
            if has_ended.is_set():
                self._client = None

    def _respond(self, client: Any, question: Question[Shape], text: str, usage: Usage) -> Shape:
        """Ask OpenAI, which holds to the shape of the answer."""
        got = client.responses.parse(
            model=self.settings.llm_model, input=_messages(question, text), text_format=question.shape,
            max_output_tokens=ANSWER_TOKENS, store=False,
        )  # fmt: skip
        _note_usage(usage, getattr(got.usage, "input_tokens", None), getattr(got.usage, "output_tokens", None))
        if not isinstance(got.output_parsed, question.shape):
            raise ValueError("the model refused, or answered nothing")
        return got.output_parsed

    def _chat(self, client: Any, question: Question[Shape], text: str, usage: Usage) -> Shape:
        """Ask another server in the way that all of them know."""
        done = client.chat.completions.create(
            model=self.settings.llm_model, messages=_messages(question, text), max_tokens=ANSWER_TOKENS,
            **_FORMATS[self._format](question.shape),
        )  # fmt: skip
        _note_usage(usage, getattr(done.usage, "prompt_tokens", None), getattr(done.usage, "completion_tokens", None))
        content = done.choices[0].message.content if done.choices else None
        if not isinstance(content, str) or not content.strip():
            raise ValueError("the model refused, or answered nothing")
        return question.read(content)

    # -- what went wrong

    def _refused(self, error: Any) -> Exception:
        """What a state of the server other than 200 means."""
        state = int(error.status_code)
        reason = f"the model's server answered {state}"
        if state in _UNFIT:
            return Unfit(reason)
        if state in _HOPELESS or 300 <= state < 400:
            why = {401: ": the key is wrong", 404: ": it knows no such model or address"}.get(state, "")
            return self._trouble(ExtractionError(reason + why), HOPELESS_SECONDS)
        if getattr(error, "code", None) == "insufficient_quota":
            return self._trouble(RetryLater(f"{reason}: the account has no credit left"), HOPELESS_SECONDS)
        return self._trouble(RetryLater(reason), _seconds(error.response.headers.get("retry-after")))

    def _broke_off(self, key: str, reason: str) -> Exception:
        """The answer is none or not whole: tried again a few times, then it cannot be read."""
        if len(self._broken) > _REMEMBERED:
            self._broken.clear()
        self._broken[key] = self._broken.get(key, 0) + 1
        if self._broken[key] >= MOST_BROKEN:
            return ValueError(f"the answer broke off {self._broken[key]} times ({reason})")
        return self._trouble(RetryLater(f"the model's server gave no whole answer ({reason})"))

    def _trouble(self, error: ExtractionError, seconds: float = 0.0) -> ExtractionError:
        self.budget.note_trouble(str(error))
        return self._breaker.trip(error, seconds)


def _messages(question: Question[Any], text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": question.system}, {"role": "user", "content": text}]


def _note_usage(usage: Usage, input_tokens: object, output_tokens: object) -> None:
    """What the server says that the call took; the estimate stands where it says nothing usable."""
    if isinstance(input_tokens, int) and isinstance(output_tokens, int) and min(input_tokens, output_tokens) >= 0:
        usage.input_tokens, usage.output_tokens = input_tokens, output_tokens


def _seconds(text: str | None) -> float:
    """The seconds of a Retry-After header; 0 where there is none, or a date."""
    try:
        return min(max(0.0, float(text or 0)), 1e6)
    except ValueError:
        return 0.0


def _openai_client(
    settings: Settings, api_key: str, total_seconds: float, transport: httpx2.BaseTransport | None
) -> tuple[Any, httpx2.Client]:
    """openai's client: one try, time limits, nothing of the environment but proxies."""
    import openai

    http = make_client(settings.llm_timeout_seconds, total_seconds, transport)
    client = openai.OpenAI(
        api_key=api_key or "none", base_url=settings.llm_base_url or _OPENAI, organization="", project="",
        timeout=settings.llm_timeout_seconds, max_retries=0, http_client=http,
    )  # fmt: skip
    return client, http
