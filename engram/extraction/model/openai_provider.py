"""The provider for OpenAI and compatible servers, such as Ollama."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from engram.extraction.candidate import Extractor
from engram.extraction.model.model_extractor import ModelExtractor
from engram.extraction.model.provider import (
    MAX_REASON_CHARACTERS,
    UNAVAILABLE_SECONDS,
    BrokenOff,
    Budget,
    ModelReply,
    ModelRequest,
    NotServed,
    Price,
    Unfit,
    is_own_server,
    price_of,
    reason_line,
)
from engram.redaction import redact
from engram.settings import Settings
from engram.system.lazy_regex import lazy_regex

if TYPE_CHECKING:
    import httpx2


# -- An HTTP client with limits on each wait, on the whole call and on the size of the answer.

#: Maximum size of an answer, in bytes.
MAX_ANSWER_BYTES = 8_000_000
#: Maximum duration of a call, in seconds, regardless of the settings.
MAX_CALL_SECONDS = 600.0
#: Maximum wait for a connection, in seconds.
MAX_CONNECT_SECONDS = 30.0


def make_client(
    wait_seconds: float, total_seconds: float, transport: httpx2.BaseTransport | None = None
) -> httpx2.Client:
    """Return a client that follows no redirects and stops reading an endless answer.

    Args:
        wait_seconds: maximum wait for the next bytes, and for a connection if that is shorter than
            ``MAX_CONNECT_SECONDS``.
        total_seconds: maximum time from the answer's first byte to its last; ``ending`` bounds the whole call.
        transport: makes the connections; None to use the proxies of the environment.
    """
    import httpx2

    def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _bounded_stream(response.stream, total_seconds)

    return httpx2.Client(
        timeout=_timeout(wait_seconds),
        follow_redirects=False,
        transport=transport,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [bound]},
    )


def _timeout(wait_seconds: float) -> httpx2.Timeout:
    import httpx2

    return httpx2.Timeout(wait_seconds, connect=min(wait_seconds, MAX_CONNECT_SECONDS))


def _bounded_stream(inner: httpx2.SyncByteStream, total_seconds: float) -> httpx2.SyncByteStream:
    import httpx2

    class Bounded(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            size, until = 0, time.monotonic() + total_seconds
            for chunk in inner:
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    raise httpx2.RemoteProtocolError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
                if time.monotonic() > until:
                    raise httpx2.ReadTimeout(f"the answer took longer than {total_seconds:g} s")
                yield chunk

        def close(self) -> None:
            inner.close()

    return Bounded()


@contextlib.contextmanager
def ending(client: httpx2.Client, total_seconds: float) -> Iterator[threading.Event]:
    """Close the client's connections if the block takes longer than ``total_seconds``; the event is then set.

    A limit on each wait would never stop a server that sends its headers one byte at a time, but this limit does.
    """
    has_ended = threading.Event()

    def end() -> None:
        has_ended.set()
        with contextlib.suppress(OSError, RuntimeError):
            client.close()

    watchdog = threading.Timer(total_seconds, end)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield has_ended
    finally:
        watchdog.cancel()
        watchdog.join()


_OPENAI = "https://api.openai.com/v1"
#: HTTP status codes for which a smaller request may succeed.
_UNFIT = (400, 413, 422)
#: Names of the optional parts of a request. Some servers answer 500 to a part that they don't support.
_PARTS = lazy_regex(r"\b(?:response_format|json_schema|json_object|grammar|reasoning_effort)\b")
#: HTTP status codes for a wrong key, model or address.
_HOPELESS = (401, 402, 403, 404, 405)
#: Name of the limit on an answer's length in chat completions, and its name for models that think.
_LIMIT, _NEW_LIMIT = "max_tokens", "max_completion_tokens"
#: Keys of a message that may contain the answer, best first. A server that separates a model's thoughts, under a name
#: that depends on the server and its version, may take an answer that follows a schema for thoughts.
_TEXT_KEYS = ("content", "reasoning_content", "reasoning")
_NO_COMPLETION = "it isn't a completion; the address of an OpenAI-compatible API, llm_base_url, usually ends in /v1"
#: Effort of a reasoning model; reasoning is paid for as output and counts towards the maximum length of an answer.
EFFORT = "low"
#: OpenAI's reasoning models. A model that is mistaken for one of them refuses the effort, and is then asked without it.
_THINKS = lazy_regex(r"(?:o\d|gpt-(?:[5-9]|\d\d))(?!\d)")


#: What the client raises for a response of an unexpected shape, and if its time runs out before it sends.
_BROKEN = (AttributeError, TypeError, RuntimeError)


def _by_schema(request: ModelRequest) -> dict[str, Any]:
    schema = {"name": "memories", "schema": dict(request.schema)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


#: Ways to ask other servers for JSON and for little reasoning; the first that the server accepts is used.
_WAYS: tuple[Callable[[ModelRequest], Mapping[str, Any]], ...] = (
    lambda request: {**_by_schema(request), "reasoning_effort": EFFORT},
    _by_schema,
    lambda request: {"response_format": {"type": "json_object"}},
    lambda request: {},
)


class OpenAIProvider:
    """Sends requests to the server in the settings. For one thread at a time."""

    def __init__(
        self,
        settings: Settings,
        *,
        api_key: str = "",
        transport: httpx2.BaseTransport | None = None,
        total_seconds: float | None = None,
    ) -> None:
        """Prepare the provider; the client is created at the first call.

        Args:
            settings: model, server and time limit.
            api_key: the key; "" for servers that need none.
            transport: for tests; None uses the network.
            total_seconds: maximum duration of a call; by default, twice the time limit in the settings, but at most
                ``MAX_CALL_SECONDS``.
        """
        self._settings = settings
        total = total_seconds or min(2 * settings.llm_timeout_seconds, MAX_CALL_SECONDS)
        self._total_seconds = total
        self._make_client: Callable[[], tuple[Any, httpx2.Client]] = lambda: _openai_client(
            settings, api_key, total, transport
        )
        self._client: tuple[Any, httpx2.Client] | None = None
        #: Index of the way in use: in ``_WAYS`` or, for OpenAI, of the two ways with and without an effort.
        self._way = 0
        self._has_answered = False
        #: The limit's name for this server.
        self._limit = _LIMIT

    @property
    def model(self) -> str:
        return self._settings.llm_model

    @property
    def price(self) -> Price:
        return price_of(self._settings)

    def complete(self, request: ModelRequest) -> ModelReply:
        import httpx2
        import openai

        try:
            reply = self._call(request)
        except openai.APIStatusError as error:
            raise _refusal(error, can_be_simpler=self._can_be_simpler) from error
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout):
                raise NotServed("the model's server cannot be reached") from error
            raise BrokenOff(type(error.__cause__ or error).__name__) from error
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
            raise ValueError(f"the model gave no complete answer ({type(error).__name__})") from error
        except (openai.OpenAIError, httpx2.HTTPError, json.JSONDecodeError, *_BROKEN) as error:
            raise BrokenOff(type(error).__name__) from error
        self._has_answered = True
        return reply

    def simplify(self) -> bool:
        """See ``Provider.simplify``.

        A model may not support reasoning, and a compatible server may not support schemas or JSON.
        """
        if not self._can_be_simpler:
            return False
        self._way += 1
        return True

    @property
    def _can_be_simpler(self) -> bool:
        ways = len(_WAYS) if self._settings.llm_base_url else 1 + bool(_THINKS.match(self.model))
        return not self._has_answered and self._way + 1 < ways

    def close(self) -> None:
        """See ``Provider.close``. A call ends at its own time limit."""

    def _call(self, request: ModelRequest) -> ModelReply:
        self._client = self._client or self._connect()
        client, http = self._client
        try:
            with ending(http, self._total_seconds) as has_ended:
                return self._chat(client, request) if self._settings.llm_base_url else self._respond(client, request)
        finally:
            if has_ended.is_set():
                self._client = None

    def _connect(self) -> tuple[Any, httpx2.Client]:
        """Create the client. A proxy or certificates specified in the environment may be unusable."""
        try:
            return self._make_client()
        except (ImportError, OSError, ValueError) as error:
            reason = redact(f"{error.strerror if isinstance(error, OSError) else error}")
            raise NotServed(
                f"the proxy or the certificates in the environment can't be used ({reason}): correct "
                "HTTPS_PROXY, ALL_PROXY or SSL_CERT_FILE",
                is_passing=False,
            ) from error

    def _respond(self, client: Any, request: ModelRequest) -> ModelReply:
        """Send a request to OpenAI, which follows the schema of the answer."""
        effort = {"reasoning": {"effort": EFFORT}} if _THINKS.match(self.model) and not self._way else {}
        response = client.responses.create(
            model=self.model,
            input=_messages(request),
            text={"format": {"type": "json_schema", "name": "answer", "schema": dict(request.schema), "strict": True}},
            max_output_tokens=request.max_output_tokens,
            store=False,
            **effort,
        )
        usage = response.usage
        return ModelReply(
            text=response.output_text if isinstance(response.output_text, str) else "",
            model=self.model,
            input_tokens=getattr(usage, "input_tokens", None),
            output_tokens=getattr(usage, "output_tokens", None),
        )

    def _chat(self, client: Any, request: ModelRequest) -> ModelReply:
        """Send a request to a compatible server through chat completions, which all of them support."""
        import openai

        try:
            completion = self._complete_chat(client, request)
        except openai.BadRequestError as error:
            if self._limit == _NEW_LIMIT or _NEW_LIMIT not in _said(error.body):
                raise
            self._limit = _NEW_LIMIT
            completion = self._complete_chat(client, request)
        choices = getattr(completion, "choices", None)
        if not choices:
            if said := _said(getattr(completion, "error", None)):
                # A server in between may pass on an error with status 200.
                raise NotServed(f"the model's server answered without a completion{said}")
            # This may be the page of a program that has its API below that address.
            raise BrokenOff(_NO_COMPLETION if isinstance(completion, str) else "it contains no completion")
        message = choices[0].message
        return ModelReply(
            text=next(filter(None, (_text_of(getattr(message, key, None)) for key in _TEXT_KEYS)), ""),
            model=self.model,
            input_tokens=getattr(completion.usage, "prompt_tokens", None),
            output_tokens=getattr(completion.usage, "completion_tokens", None),
        )

    def _complete_chat(self, client: Any, request: ModelRequest) -> Any:
        limit = {self._limit: request.max_output_tokens}
        return client.chat.completions.create(
            model=self.model, messages=_messages(request), **limit, **_WAYS[self._way](request)
        )


def _text_of(content: object) -> str:
    """Return the text of a message, which may be in parts and mixed with a model's thoughts; "" if there is none."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def _said(body: object) -> str:
    """Return a server's explanation of a failure, to be appended to a sentence; "" if it gives none, or only HTML."""
    message = body.get("message") if isinstance(body, Mapping) else body
    text = message.strip() if isinstance(message, str) else ""
    return f": {reason_line(text)}" if text and not text.startswith("<") else ""


def _refusal(error: Any, *, can_be_simpler: bool) -> Exception:
    """Return the error for an HTTP status other than 200.

    Args:
        can_be_simpler: False if the server has followed the form, or has been asked in the simplest way. A malfunction
            that names a part of the request is then no refusal of that part.
    """
    state = int(error.status_code)
    reason, said = f"the model's server answered {state}", _said(error.body)
    if state in _UNFIT or (state == 500 and can_be_simpler and _PARTS.search(said)):
        return Unfit(reason + said)
    if 300 <= state < 400:
        place = "".join(filter(str.isprintable, error.response.headers.get("location", "")))
        said = f": it has moved to {redact(place)[:MAX_REASON_CHARACTERS]}" if place else ""
    if state in _HOPELESS or 300 <= state < 400:
        why = {401: ": the key is wrong", 404: ": it does not know the model or the address"}.get(state, "")
        return NotServed(reason + (why or said), is_passing=False)
    if getattr(error, "code", None) == "insufficient_quota":
        return NotServed(f"{reason}: the account has no credit left", wait_seconds=UNAVAILABLE_SECONDS)
    return NotServed(reason + said, wait_seconds=_seconds(error.response.headers.get("retry-after")))


def _messages(request: ModelRequest) -> list[dict[str, str]]:
    return [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}]


def _seconds(text: str | None) -> float:
    """Return the seconds in a Retry-After header, or until the date in it; 0 if it contains neither."""
    try:
        seconds = float(text or 0)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text or "").timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return min(max(0.0, seconds), 1e6)


def _openai_client(
    settings: Settings, api_key: str, total_seconds: float, transport: httpx2.BaseTransport | None
) -> tuple[Any, httpx2.Client]:
    """Return a client of ``openai`` without retries and with time limits.

    It uses only certificates and proxies from the environment.

    A server on this machine or in a private network is contacted directly, because a proxy would receive data that must
    not leave the network.
    """
    import httpx2
    import openai

    if transport is None and is_own_server(settings.llm_base_url):
        transport = httpx2.HTTPTransport()
    http = make_client(settings.llm_timeout_seconds, total_seconds, transport)
    client = openai.OpenAI(
        api_key=api_key or "none",
        base_url=settings.llm_base_url or _OPENAI,
        organization="",
        project="",
        timeout=_timeout(settings.llm_timeout_seconds),
        max_retries=0,
        http_client=http,
    )
    return client, http


# -- The extractor for ``extractor = "openai"``, which is OpenAI or a compatible server.


class OpenAIExtractor(ModelExtractor):
    """Uses the model in the settings."""

    def __init__(
        self,
        settings: Settings,
        budget: Budget,
        fallback: Extractor,
        *,
        api_key: str = "",
        transport: httpx2.BaseTransport | None = None,
        total_seconds: float | None = None,
    ) -> None:
        """See ``OpenAIProvider`` and ``ModelExtractor``."""
        provider = OpenAIProvider(settings, api_key=api_key, transport=transport, total_seconds=total_seconds)
        super().__init__("openai-1", provider, budget, fallback)
