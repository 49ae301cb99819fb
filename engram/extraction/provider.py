"""The protocol between Engram and a language model: one request in, one reply out. One module a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engram.errors import ExtractionError
from engram.extraction.budget import Price

#: A count of tokens, or a cost, of one call beyond these is no count: the estimate stands.
MAX_CALL_TOKENS, MAX_CALL_DOLLARS = 100_000_000, 1_000.0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a provider sends; nothing else leaves the machine."""

    #: Names the task, such as ``extract``.
    task: str
    #: What the model is told before the text.
    system: str
    #: The text.
    user: str
    #: JSON schema of the answer. Every key is required, none may be added.
    schema: Mapping[str, Any]
    #: Most tokens of the answer.
    max_output_tokens: int


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a provider received."""

    #: The answer: a JSON object, possibly with text around it.
    text: str
    #: The model that answered; "" where the provider does not say.
    model: str = ""
    #: Tokens that the call took; None where the provider does not say.
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: What the call cost, where the provider says so; otherwise it is computed from ``Provider.price``.
    dollars: float | None = None


class Unfit(ValueError):
    """The provider refused this request itself; nothing was paid. A smaller request may be served."""


class NotServed(ExtractionError):
    """The provider served nothing, and nothing was paid."""

    def __init__(self, reason: str, *, is_passing: bool = True, wait_seconds: float = 0.0) -> None:
        """Say what happened.

        Args:
            reason: one line for the user.
            is_passing: False where waiting mends nothing (wrong key, not logged in, unknown model).
            wait_seconds: how long to ask nothing; 0 for the usual back-off.
        """
        super().__init__(reason)
        self.is_passing = is_passing
        self.wait_seconds = wait_seconds


class BrokenOff(ExtractionError):
    """The answer is missing or incomplete, and may have been paid. The same request is tried again a few times."""


class Provider(Protocol):
    """Sends one request at a time to one language model. No retries, no ledger, no breaker: ``LanguageModel`` has them."""

    @property
    def model(self) -> str:
        """The model, as the ledger names it."""
        ...

    @property
    def price(self) -> Price:
        """Price by which a call is reserved, and settled where the reply names no cost. Raises SettingsError."""
        ...

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask once, within the provider's own time limit.

        Raises:
            Unfit: the request is refused; it is halved.
            NotServed: nothing was served and nothing paid; the provider is left alone for a while.
            BrokenOff: no whole answer came; tried again later, and halved after a few times.
            ValueError: the model refused to answer, or ran out of tokens; the request is halved.
        """
        ...

    def simplify(self) -> bool:
        """After ``Unfit``: ask in a simpler way from now on. False where there is none."""
        ...

    def close(self) -> None:
        """End a call that is under way, if that can be done, and begin none; from any thread."""
        ...
