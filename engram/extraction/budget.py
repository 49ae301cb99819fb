"""The only way to the language model: a reservation before each call, within caps, settled after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from engram.errors import BudgetReached, SettingsError
from engram.models.spend import Caps, reserve, settle
from engram.models.store import Store
from engram.settings import Settings

#: Characters that count as one token when a call is estimated; low, so that estimates are high.
CHARACTERS_A_TOKEN = 3
_HOUR_SECONDS = 3600.0


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
#: A server of one's own costs nothing.
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
            table[model.strip()] = Price(float(one), float(other))
        except ValueError as error:
            raise SettingsError(f"llm_prices has {entry!r}; write model=input/output in dollars a million") from error
    own = OWN_SERVER_PRICE if settings.llm_base_url else UNKNOWN_PRICE
    return table.get(settings.llm_model, own)


@dataclass(slots=True)
class Usage:
    """What a call took, to be filled in by the caller; the estimate stands where it is not."""

    input_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Budget:
    """Reserves and settles calls of one process; the caps hold over all processes."""

    store: Store
    settings: Settings
    #: Steady times of this process's own calls: a clock that jumps ahead opens no hour.
    _own_calls: deque[float] = field(default_factory=deque)

    @contextmanager
    def call(self, task: str, text: str, max_output_tokens: int, project_id: int | None = None) -> Iterator[Usage]:
        """Reserve the most that a call with ``text`` can cost, run the block, settle what it took.

        A call that fails keeps its reservation: it may have been paid for.

        Raises:
            BudgetReached: a cap would be passed; the block does not run.
        """
        steady = self.store.clock.steady_seconds()
        while self._own_calls and steady - self._own_calls[0] >= _HOUR_SECONDS:
            self._own_calls.popleft()
        if len(self._own_calls) >= self.settings.llm_calls_per_hour:
            raise BudgetReached(f"the cap of {self.settings.llm_calls_per_hour} calls an hour is reached")
        price = price_of(self.settings)
        usage = Usage(len(text) // CHARACTERS_A_TOKEN + 200, max_output_tokens)
        reservation = reserve(
            self.store, _caps(self.settings), task=task, model=self.settings.llm_model, project_id=project_id,
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
            dollars=price.dollars(usage.input_tokens, usage.output_tokens),
        )  # fmt: skip
        self._own_calls.append(steady)
        yield usage
        settle(
            self.store, reservation, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
            dollars=price.dollars(usage.input_tokens, usage.output_tokens),
        )  # fmt: skip


def _caps(settings: Settings) -> Caps:
    return Caps(
        settings.llm_dollars_per_hour, settings.llm_dollars_per_day, settings.llm_dollars_per_project,
        settings.llm_calls_per_hour,
    )  # fmt: skip
