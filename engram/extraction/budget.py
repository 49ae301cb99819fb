"""The budget of the language model: each call is reserved within the caps before it, and settled after it."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from engram.errors import SettingsError
from engram.models.spend import Caps, reserve, settle
from engram.models.stages import note_failure, note_success
from engram.models.store import Store
from engram.settings import Settings

#: Maximum number of tokens that the server adds to a request (roles, the schema of the answer).
OVERHEAD_TOKENS = 1_000
#: Stage under which status shows the language model.
STAGE = "llm"


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens."""

    input: float
    output: float

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of a call of these sizes."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


#: Assumed price of an unknown model; rather too high than too low.
UNKNOWN_PRICE = Price(5.0, 20.0)
#: Price of a server on this machine or in a private network.
OWN_SERVER_PRICE = Price(0.0, 0.0)


def price_of(settings: Settings) -> Price:
    """Return the price of the model that the settings name.

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
    #: Cost of the call, if the provider says so; None to compute it from the price.
    dollars: float | None = None

    def was_free(self) -> None:
        """Note that the call was refused before any work was done: it counts as a call, but costs nothing."""
        self.input_tokens = self.output_tokens = 0
        self.dollars = None


@dataclass(slots=True)
class Budget:
    """Reserves and settles calls; the caps hold for all processes that share a memory."""

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
        reservation keeps counting in full, since the call may have been paid for.

        Args:
            task: the name of the call in ``engram cost``.
            text: the whole request.
            max_output_tokens: maximum number of tokens of the answer.
            project_id: the project whose cap it counts against.
            model: the model's name; "" for that of the settings.
            price: its price; None for that of the settings.

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
        """Note for status that the model answered."""
        note_success(self.store, STAGE, seen=count, done=count)

    def note_trouble(self, reason: str) -> None:
        """Note for status why the model is not asked or not understood."""
        note_failure(self.store, STAGE, reason)


def _caps(settings: Settings) -> Caps:
    return Caps(
        settings.llm_dollars_per_hour,
        settings.llm_dollars_per_day,
        settings.llm_dollars_per_project,
        settings.llm_calls_per_hour,
        settings.llm_tokens_per_day,
    )
