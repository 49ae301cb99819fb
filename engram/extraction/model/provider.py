"""The interface of language model providers, the budget for their calls, and the breaker that suspends calls."""

from __future__ import annotations

import ipaddress
import math
import os
import random
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from engram.errors import ExtractionError, SettingsError
from engram.models.engine.transaction import Store
from engram.models.work.spend import Caps, reserve, settle
from engram.models.work.task_runs import note_failure, note_success
from engram.models.work.work import BACK_OFF_SECONDS
from engram.redaction import redact
from engram.settings import Settings
from engram.system.atomic import read_regular
from engram.system.clock import Clock
from engram.trust.display import one_line
from engram.vaults import settings_around

# -- A circuit breaker: after a failure, the server is not called for a while, however many sessions are waiting.

#: How long a server is left alone after it has refused the key, the model or all requests, in seconds.
UNAVAILABLE_SECONDS = 900.0
#: Maximum wait that a server may request, in seconds.
MAX_WAIT_SECONDS = 3_600.0
#: Maximum random extension of a wait, as a share of the wait.
JITTER = 0.25


@dataclass(slots=True)
class Breaker:
    """Decides whether the server may be called now."""

    clock: Clock
    _until: float = 0.0
    _error: ExtractionError | None = None
    _failures: int = 0
    _chance: random.Random = field(default_factory=random.Random)

    def check(self) -> None:
        """Do nothing if the server may be asked.

        Raises:
            ExtractionError: the last failure; nothing may be sent yet.
        """
        if self._error is not None and self.clock.steady_seconds() < self._until:
            raise type(self._error)(str(self._error))

    def trip(self, error: ExtractionError, seconds: float = 0.0) -> ExtractionError:
        """Open the breaker for ``seconds``, or for 15, 30, 60 or 120 s after consecutive failures; return the error."""
        self._failures += 1
        wait = max(seconds, BACK_OFF_SECONDS[min(self._failures, len(BACK_OFF_SECONDS)) - 1])
        wait *= 1 + JITTER * self._chance.random()
        self._error, self._until = error, self.clock.steady_seconds() + min(wait, MAX_WAIT_SECONDS)
        return error

    def worked(self) -> None:
        """Close the breaker, because the server has answered."""
        self._failures, self._error = 0, None


# -- The budget for the language model: each call is reserved within the caps beforehand, and settled afterwards.

#: Maximum number of tokens that the server adds to a request, such as roles and the schema of the answer.
OVERHEAD_TOKENS = 1_000
#: Name of the stage under which status shows the language model.
STAGE = "llm"


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens."""

    input: float
    output: float

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of a call with these numbers of tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


#: Price assumed for an unknown model, which is rather too high than too low.
UNKNOWN_PRICE = Price(5.0, 20.0)
#: Price of a server on this machine or in a private network.
OWN_SERVER_PRICE = Price(0.0, 0.0)


def price_of(settings: Settings) -> Price:
    """Return the price of the model in the settings.

    Raises:
        SettingsError: an entry of the price table is not of the form ``model=input/output``.
    """
    table = {}
    for entry in settings.llm_prices:
        model, _, prices = entry.partition("=")
        try:
            input_price, _, output_price = prices.partition("/")
            price = Price(float(input_price), float(output_price))
            if not (0 <= price.input < math.inf and 0 <= price.output < math.inf):
                raise ValueError("no price")
            table[model.strip()] = price
        except ValueError as error:
            raise SettingsError(
                f"llm_prices has {entry!r}; write model=input/output, in dollars per million tokens"
            ) from error
    own = OWN_SERVER_PRICE if is_own_server(settings.llm_base_url) else UNKNOWN_PRICE
    return table.get(settings.llm_model, own)


def is_own_server(base_url: str) -> bool:
    """Return True for a server on this machine or in a private network, which costs nothing."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith((".localhost", ".local")):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


@dataclass(slots=True)
class Usage:
    """The size and cost of a call: an estimate until the caller fills it in."""

    input_tokens: int
    output_tokens: int
    #: Cost of the call, if the provider reports it; None to compute it from the price.
    dollars: float | None = None

    def was_free(self) -> None:
        """Record that the call was refused before any work was done, so that it counts as a call but costs nothing."""
        self.input_tokens = self.output_tokens = 0
        self.dollars = None


@dataclass(slots=True)
class Budget:
    """Reserves and settles calls; the caps apply to all processes that share a memory."""

    store: Store
    settings: Settings

    @contextmanager
    def call(
        self,
        task: str,
        text: str,
        max_output_tokens: int,
        project_id: int | None = None,
        *,
        model: str = "",
        price: Price | None = None,
    ) -> Iterator[Usage]:
        """Reserve the maximum cost of a call with ``text``, run the block, then settle the actual cost.

        No token is shorter than a byte, so the reservation is never too small. If the process dies in the block, the
        reservation continues to count in full, because the call may have been paid for.

        Args:
            task: the name of the call in ``engram cost``.
            max_output_tokens: maximum number of tokens of the answer.
            project_id: the project with the cap against which it counts.
            model: the name of the model; "" for the one in the settings.
            price: its price; None for the one in the settings.

        Raises:
            BudgetReached: the call would exceed a cap; the block does not run.
        """
        price = price or price_of(self.settings)
        usage = Usage(len(text.encode()) + OVERHEAD_TOKENS, max_output_tokens)
        reservation = reserve(
            self.store,
            _caps(self.settings),
            task=task,
            model=model or self.settings.llm_model,
            project_id=project_id,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            dollars=price.dollars(usage.input_tokens, usage.output_tokens),
        )
        try:
            yield usage
        finally:
            settle(
                self.store,
                reservation,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                dollars=price.dollars(usage.input_tokens, usage.output_tokens)
                if usage.dollars is None
                else usage.dollars,
            )

    def note_answers(self, count: int) -> None:
        """Record, for status, that the model answered."""
        note_success(self.store, STAGE, seen=count, done=count)

    def note_trouble(self, reason: str) -> None:
        """Record, for status, why the model is not called, or why its answer could not be read."""
        note_failure(self.store, STAGE, reason)


def _caps(settings: Settings) -> Caps:
    return Caps(
        settings.llm_dollars_per_hour,
        settings.llm_dollars_per_day,
        settings.llm_dollars_per_project,
        settings.llm_calls_per_hour,
        settings.llm_tokens_per_day,
    )


# -- The interface of language model providers, which turn a request into a reply. Each provider has its own module.

#: Maximum length of a server's or a command's explanation of a failure, in characters.
MAX_REASON_CHARACTERS = 160
#: Maximum plausible tokens and cost of a call; if a reply reports more, the estimate is kept.
MAX_CALL_TOKENS, MAX_CALL_DOLLARS = 100_000_000, 1_000.0


def reason_line(text: str) -> str:
    """Return an error text on one line, without control characters, links or secrets."""
    # Redact first, because the rest of a secret that was cut may not be recognised.
    return one_line(redact(text), MAX_REASON_CHARACTERS)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """The data that a provider sends. Nothing else leaves the machine."""

    #: Name of the task, such as ``extract``.
    task: str
    #: System prompt.
    system: str
    #: The text.
    user: str
    #: JSON schema of the answer. Every key is required, and none may be added.
    schema: Mapping[str, Any]
    #: Maximum number of tokens of the answer.
    max_output_tokens: int


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The answer that a provider received."""

    #: The answer: a JSON object, possibly with text around it.
    text: str
    #: The model that answered; "" if the provider does not report it.
    model: str = ""
    #: Tokens of the call; None if the provider does not report them.
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: Cost of the call; None to compute it from ``Provider.price``.
    dollars: float | None = None
    #: True if the provider requested a particular form of answer, but didn't get it.
    is_prose: bool = False


class Unfit(ValueError):
    """The provider refused this request, and nothing was paid for it; a smaller request may be served."""


class Prose(ValueError):
    """The model answered in prose, or in another form than the requested one.

    A single text may have led it astray. A model that has never used the requested form is not asked again for a while.
    """


class NotServed(ExtractionError):
    """The provider served nothing, and nothing was paid for."""

    def __init__(self, reason: str, *, is_passing: bool = True, wait_seconds: float = 0.0) -> None:
        """Describe what happened.

        Args:
            reason: one line for the user.
            is_passing: False if waiting does not help (wrong key, not logged in, unknown model).
            wait_seconds: how long the provider must not be asked; 0 for the usual back-off. ``UNAVAILABLE_SECONDS`` if
                waiting does not help.
        """
        super().__init__(reason)
        self.is_passing = is_passing
        self.wait_seconds = wait_seconds if is_passing else UNAVAILABLE_SECONDS


class BrokenOff(ExtractionError):
    """The answer is missing or incomplete, and may have been paid for; the request is retried a few times."""


class Provider(Protocol):
    """Sends one request at a time to a language model. ``LanguageModel`` adds retries, the budget and the breaker."""

    @property
    def model(self) -> str:
        """The name of the model in the ledger."""

    @property
    def price(self) -> Price:
        """The price at which a call is reserved, and settled if the reply has no cost. Raises SettingsError."""

    def complete(self, request: ModelRequest) -> ModelReply:
        """Send a request once, within the provider's own time limit.

        Raises:
            Unfit: the request is refused; it is halved.
            NotServed: nothing was served or paid for; the provider is not asked for a while.
            BrokenOff: the answer is incomplete; the request is tried again later, and halved after a few times.
            ValueError: the model refused to answer, or ran out of tokens; the request is halved.
        """

    def simplify(self) -> bool:
        """Send requests in a simpler way from now on, after ``Unfit``; return False if there is no simpler way."""

    def close(self) -> None:
        """End a running call if possible, and refuse further ones; may be called from any thread."""


# -- Find the key of the openai extractor, in the environment or in the memory folder's ``.env``.

#: Variables that may contain the key; the first one that is set is used.
NAMES = ("ENGRAM_OPENAI_API_KEY", "OPENAI_API_KEY")
#: Maximum size of a ``.env`` for it to be read, in bytes.
_ENV_BYTES = 100_000


def api_key_of(settings: Settings) -> str:
    """Return the API key for the memory in ``settings``; a vault uses the key of the memory folder that contains it.

    Raises SettingsError, as for ``find_api_key``.
    """
    return find_api_key(settings_around(settings).places.env_file)


def find_api_key(env_file: Path, environ: Mapping[str, str] | None = None) -> str:
    """Return the key; "" if there is none.

    Raises:
        SettingsError: ``.env`` can be read by others.
    """
    environ = os.environ if environ is None else environ
    values = {**read_env(env_file), **{name: environ[name] for name in NAMES if environ.get(name)}}
    return next((values[name] for name in NAMES if values.get(name)), "")


def read_env(path: Path) -> dict[str, str]:
    """Return the ``KEY=VALUE`` lines of a file; nothing is expanded or run. {} if there is no such file.

    Raises:
        SettingsError: users other than the owner may read it, or it belongs to someone else.
    """
    try:
        facts = path.stat()
    except OSError:
        return {}
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise SettingsError(f"only you may have access to {path}: chmod 600 {path}")
    variables = {}
    for line in (read_regular(path, _ENV_BYTES, may_be_link=True) or b"").decode("utf-8-sig", "replace").splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            variables[name.strip()] = value[1:-1] if is_quoted else value
    return variables
