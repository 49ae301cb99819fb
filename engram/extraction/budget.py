"""The only way to the language model: a reservation before each call, within caps, settled after it."""

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

#: Tokens that the server adds to a request by itself (roles, the shape of the answer), at most.
OVERHEAD_TOKENS = 1_000
#: Stage under which status shows how the language model does.
STAGE = "llm"


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens."""

    input: float
    output: float

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """What a call of these sizes costs."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


#: What an unknown model is taken to cost: too much rather than too little.
UNKNOWN_PRICE = Price(5.0, 20.0)
#: A server on one's own machine or network costs nothing.
OWN_SERVER_PRICE = Price(0.0, 0.0)


def price_of(settings: Settings) -> Price:
    """The price of the model that the settings name.

    Raises:
        SettingsError: an entry of the price table is no ``model=input/output``.
    """
    table = {}
    for entry in settings.llm_prices:
        model, _, prices = entry.partition("=")
        try:
            one, _, other = prices.partition("/")
            price = Price(float(one), float(other))
            if not (0 <= price.input < math.inf and 0 <= price.output < math.inf):
                raise ValueError("no price")
            table[model.strip()] = price
        except ValueError as error:
            raise SettingsError(f"llm_prices has {entry!r}; write model=input/output in dollars a million") from error
    own = OWN_SERVER_PRICE if is_own_server(settings.llm_base_url) else UNKNOWN_PRICE
    return table.get(settings.llm_model, own)


def is_own_server(base_url: str) -> bool:
    """True for a server on this machine or in a private network: nobody sends a bill for it."""
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
    """What a call took, to be filled in by the caller; the estimate stands where it is not."""

    input_tokens: int
    output_tokens: int
    #: What the call cost, where the provider says so; None computes it from the price.
    dollars: float | None = None

    def was_free(self) -> None:
        """The call was refused before any work was done: it costs nothing, though it counts as a call."""
        self.input_tokens = self.output_tokens = 0
        self.dollars = None


@dataclass(slots=True)
class Budget:
    """Reserves and settles calls; the caps hold over all processes that share a memory."""

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
        """Reserve the most that a call with ``text`` can cost, run the block, settle what it took.

        No token is shorter than a byte, so the reservation is never too small. Where the process dies in the block
        the reservation goes on counting in full: it may have been paid for.

        Args:
            task: what ``engram cost`` names the call.
            text: everything that is sent.
            max_output_tokens: most tokens of the answer.
            project_id: whose cap it counts against.
            model: the model's name; that of the settings where it is "".
            price: what it costs; that of the settings where it is None.

        Raises:
            BudgetReached: a cap would be passed; the block does not run.
        """
        price = price or price_of(self.settings)
        usage = Usage(len(text.encode()) + OVERHEAD_TOKENS, max_output_tokens)
        reservation = reserve(
            self.store, _caps(self.settings), task=task, model=model or self.settings.llm_model, project_id=project_id,
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
            dollars=price.dollars(usage.input_tokens, usage.output_tokens),
        )  # fmt: skip
        try:
            yield usage
        finally:
            settle(
                self.store, reservation, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
                dollars=price.dollars(usage.input_tokens, usage.output_tokens)
                if usage.dollars is None
                else usage.dollars,
            )  # fmt: skip

    def note_answers(self, count: int) -> None:
        """The model answered: status says so."""
        note_success(self.store, STAGE, seen=count, done=count)

    def note_trouble(self, reason: str) -> None:
        """Why the model is not asked, or cannot be understood: status shows it."""
        note_failure(self.store, STAGE, reason)


def _caps(settings: Settings) -> Caps:
    return Caps(
        settings.llm_dollars_per_hour, settings.llm_dollars_per_day, settings.llm_dollars_per_project,
        settings.llm_calls_per_hour, settings.llm_tokens_per_day,
    )  # fmt: skip
