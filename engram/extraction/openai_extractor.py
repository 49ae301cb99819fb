"""The extractor that asks a language model: bounded calls, no retries of its own, poison split and set aside."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engram.errors import BudgetReached, ExtractionError, RetryLater
from engram.extraction.answer import Answer, candidates_of, read_answer, rolling_summary_of
from engram.extraction.bounded_http import LONGEST_CALL_SECONDS, ending, make_client
from engram.extraction.breaker import HOPELESS_SECONDS, Breaker
from engram.extraction.budget import Budget, Usage
from engram.extraction.candidate import Candidate
from engram.extraction.protocol import ExtractionContext, Extractor
from engram.extraction.request import SYSTEM_PROMPT, batches, halves, request_text, without_own
from engram.settings import Settings
from engram.transcripts.record import Turn

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

#: Tokens of one answer.
ANSWER_TOKENS = 4_000
#: Answers of one proposal that may be unreadable; then the local extractor takes the rest.
MOST_UNREADABLE = 16
#: So often a request is sent again whose answer broke off; then it is split.
MOST_BROKEN = 3
#: Answers that are remembered, so that a proposal that is begun anew does not pay twice.
_REMEMBERED = 128
_OPENAI = "https://api.openai.com/v1"
#: States that say that the request itself cannot be served; a smaller one may be.
_UNFIT = (400, 413, 422)
#: States that no waiting mends: the key, the model or the address is wrong.
_HOPELESS = (401, 402, 403, 404, 405)
#: Ways to ask other servers for JSON; the first that the server takes is kept.
_FORMATS: tuple[Mapping[str, Any], ...] = (
    {"response_format": {"type": "json_schema",
                         "json_schema": {"name": "memories", "schema": Answer.model_json_schema()}}},
    {"response_format": {"type": "json_object"}},
    {},
)  # fmt: skip


class _Unfit(ValueError):
    """The server refused the request itself."""


class OpenAIExtractor:
    """Asks the model that the settings name; at a cap, or for what the model cannot read, the local one goes on."""

    name = "openai-1"

    def __init__(
        self, settings: Settings, budget: Budget, fallback: Extractor, *, api_key: str = "",
        transport: httpx2.BaseTransport | None = None, total_seconds: float | None = None,
    ) -> None:  # fmt: skip
        """Prepare; the client is made at the first call.

        Args:
            settings: model, server, time limit and caps.
            budget: without a reservation there is no call.
            fallback: proposes where a cap is reached or a text is poison.
            api_key: the key; "" for servers that need none.
            transport: carries the requests, for tests; None is the network.
            total_seconds: longest call; by default twice the time limit of the settings, at most 60 s.
        """
        self._settings = settings
        self._budget = budget
        self._fallback = fallback
        self._breaker = Breaker(budget.store.clock)
        total = total_seconds or min(2 * settings.llm_timeout_seconds, LONGEST_CALL_SECONDS)
        self._total_seconds = total
        self._make_client: Callable[[], tuple[Any, httpx2.Client]] = lambda: _openai_client(
            settings, api_key, total, transport
        )
        self._client: tuple[Any, httpx2.Client] | None = None
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._broken: dict[str, int] = {}
        self._format = 0
        self._has_worked = False
        self._unreadable = self._answered = 0
        #: Why the local extractor stood in, for status.
        self._reason = ""
        #: What the session of the last proposal is about so far.
        self.rolling_summary = ""

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """See ``Extractor.propose``.

        Raises:
            RetryLater: a passing fault of the server or the network.
            ExtractionError: the server refuses for good; the message says why.
        """
        self.rolling_summary, self._reason = context.rolling_summary, ""
        self._unreadable = self._answered = 0
        found: list[Candidate] = []
        for batch in batches(without_own(turns)):
            found += self._propose_batch(batch, context)
        if self._answered:
            self._budget.note_answers(self._answered)
        if self._reason:
            self._budget.note_trouble(self._reason)
        return found[: max(0, context.session_cap - context.kept_before)]

    def _propose_batch(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        text, ids = request_text(turns, context)
        if self._unreadable >= MOST_UNREADABLE:
            return self._propose_locally(turns, context)
        try:
            answer = self._ask(text, context)
        except BudgetReached as reached:
            self._reason = str(reached)
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
            return self._propose_batch(parts[0], context) + self._propose_batch(parts[1], context)
        if isinstance(error, _Unfit) and not self._has_worked:
            raise self._breaker.trip(ExtractionError(f"{error}; nothing it was sent was right"), HOPELESS_SECONDS)
        logger.warning("action=set_aside turn=%s reason=%s", turns[0].key, error)
        self._reason = f"a text of turn {turns[0].key} was left to the local extractor: {error}"
        return self._propose_locally(turns, context)

    def _propose_locally(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        return [replace(one, extractor=self._fallback.name) for one in self._fallback.propose(turns, context)]

    # -- one call

    def _ask(self, text: str, context: ExtractionContext) -> Answer:
        """The answer to one request, asked once. ValueError: it cannot be read."""
        key = hashlib.sha256(text.encode()).hexdigest()
        if key in self._answers:
            return self._answers[key]
        while True:
            self._breaker.check()
            try:
                answer = self._reserve_and_call(key, text, context)
                break
            except _Unfit:
                if not self._settings.llm_base_url or self._has_worked or self._format + 1 >= len(_FORMATS):
                    raise
                self._format += 1
        self._breaker.worked()
        self._has_worked = True
        self._answered += 1
        self._answers[key] = answer
        if len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        return answer

    def _reserve_and_call(self, key: str, text: str, context: ExtractionContext) -> Answer:
        import httpx2
        import openai

        with self._budget.call("extract", SYSTEM_PROMPT + text, ANSWER_TOKENS, context.project_id) as usage:
            try:
                return self._call(text, usage)
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

    def _call(self, text: str, usage: Usage) -> Answer:
        self._client = self._client or self._make_client()
        client, http = self._client
        try:
            with ending(http, self._total_seconds) as has_ended:
                if self._settings.llm_base_url:
                    return self._chat(client, text, usage)
                return self._respond(client, text, usage)
        finally:
            if has_ended.is_set():
                self._client = None

    def _respond(self, client: Any, text: str, usage: Usage) -> Answer:
        """Ask OpenAI, which holds to the shape of the answer."""
        got = client.responses.parse(
            model=self._settings.llm_model, input=_messages(text), text_format=Answer, max_output_tokens=ANSWER_TOKENS,
            store=False,
        )  # fmt: skip
        _note_usage(usage, getattr(got.usage, "input_tokens", None), getattr(got.usage, "output_tokens", None))
        if not isinstance(got.output_parsed, Answer):
            raise ValueError("the model refused, or answered nothing")
        return got.output_parsed

    def _chat(self, client: Any, text: str, usage: Usage) -> Answer:
        """Ask another server in the way that all of them know."""
        done = client.chat.completions.create(
            model=self._settings.llm_model, messages=_messages(text), max_tokens=ANSWER_TOKENS,
            **_FORMATS[self._format],
        )  # fmt: skip
        _note_usage(usage, getattr(done.usage, "prompt_tokens", None), getattr(done.usage, "completion_tokens", None))
        content = done.choices[0].message.content if done.choices else None
        if not isinstance(content, str) or not content.strip():
            raise ValueError("the model refused, or answered nothing")
        return read_answer(content)

    # -- what went wrong

    def _refused(self, error: Any) -> Exception:
        """What a state of the server other than 200 means."""
        state = int(error.status_code)
        reason = f"the model's server answered {state}"
        if state in _UNFIT:
            return _Unfit(reason)
        if state in _HOPELESS or 300 <= state < 400:
            why = {401: ": the key is wrong", 404: ": it knows no such model or address"}.get(state, "")
            return self._trouble(ExtractionError(reason + why), HOPELESS_SECONDS)
        if getattr(error, "code", None) == "insufficient_quota":
            return self._trouble(RetryLater(f"{reason}: the account has no credit left"), HOPELESS_SECONDS)
        return self._trouble(RetryLater(reason), _seconds(error.response.headers.get("retry-after")))

    def _broke_off(self, key: str, reason: str) -> Exception:
        """The answer is none or not whole: tried again a few times, then split."""
        if len(self._broken) > _REMEMBERED:
            self._broken.clear()
        self._broken[key] = self._broken.get(key, 0) + 1
        if self._broken[key] >= MOST_BROKEN:
            return ValueError(f"the answer broke off {self._broken[key]} times ({reason})")
        return self._trouble(RetryLater(f"the model's server gave no whole answer ({reason})"))

    def _trouble(self, error: ExtractionError, seconds: float = 0.0) -> ExtractionError:
        self._budget.note_trouble(str(error))
        return self._breaker.trip(error, seconds)


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": text}]


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
