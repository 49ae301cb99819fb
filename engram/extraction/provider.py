"""The interface of language model providers: a request in, a reply out. Each provider has a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engram.errors import ExtractionError
from engram.extraction.budget import Price

#: Maximum plausible tokens and cost of a call; beyond these the estimate stays.
MAX_CALL_TOKENS, MAX_CALL_DOLLARS = 100_000_000, 1_000.0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a provider sends; nothing else leaves the machine."""

    #: Name of the task, such as ``extract``.
    task: str
    #: System prompt.
    system: str
    #: The text.
    user: str
    #: JSON schema of the answer. Every key is required, none may be added.
    schema: Mapping[str, Any]
    #: Maximum number of tokens of the answer.
    max_output_tokens: int


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a provider received."""

    #: The answer: a JSON object, possibly with text around it.
    text: str
    #: The model that answered; "" if the provider does not say.
    model: str = ""
    #: Tokens of the call; None if the provider does not say.
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: Cost of the call; None to compute it from ``Provider.price``.
    dollars: float | None = None
    #: True if the provider asked for the form of the answer and did not get it.
    is_prose: bool = False


class Unfit(ValueError):
    """The provider refused this request, and nothing was paid; a smaller request may be served."""


class Prose(ValueError):
    """The model answered in words of its own instead of the form that was asked for.

    One text may have led it astray. A model that never kept the form is not asked again for a while.
    """


class NotServed(ExtractionError):
    """The provider served nothing, and nothing was paid."""

    def __init__(self, reason: str, *, is_passing: bool = True, wait_seconds: float = 0.0) -> None:
        """Describe what happened.

        Args:
            reason: one line for the user.
            is_passing: False if waiting does not help (wrong key, not logged in, unknown model).
            wait_seconds: how long to ask nothing; 0 for the usual back-off.
        """
        super().__init__(reason)
        self.is_passing = is_passing
        self.wait_seconds = wait_seconds


class BrokenOff(ExtractionError):
    """The answer is missing or incomplete, and may have been paid; the request is tried again a few times."""


class Provider(Protocol):
    """Sends one request at a time to a language model. ``LanguageModel`` adds retries, the budget and the breaker."""

    @property
    def model(self) -> str:
        """The name of the model in the ledger."""
        ...

    @property
    def price(self) -> Price:
        """The price at which a call is reserved, and settled if the reply has no cost. Raises SettingsError."""
        ...

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask once, within the provider's own time limit.

        Raises:
            Unfit: the request is refused; it is halved.
            NotServed: nothing was served and nothing paid; the provider is not asked for a while.
            BrokenOff: the answer is incomplete; tried again later, and halved after a few times.
            ValueError: the model refused to answer, or ran out of tokens; the request is halved.
        """
        ...

    def simplify(self) -> bool:
        """Ask in a simpler way from now on, after ``Unfit``; returns False if there is none."""
        ...

    def close(self) -> None:
        """End a running call if possible, and start no other; from any thread."""
        ...
