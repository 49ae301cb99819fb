"""A circuit breaker: after a failure the server is not asked for a while, however many sessions wait."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from engram.clock import Clock
from engram.errors import ExtractionError
from engram.models.work import BACK_OFF_SECONDS

#: How long a server that refused the key, the model or every request is not asked, in seconds.
UNAVAILABLE_SECONDS = 900.0
#: Maximum wait that a server may ask for, in seconds.
MAX_WAIT_SECONDS = 3_600.0
#: Maximum random extension of a wait, as a share of it.
JITTER = 0.25


@dataclass(slots=True)
class Breaker:
    """Decides whether the server may be asked now."""

    clock: Clock
    _until: float = 0.0
    _error: ExtractionError | None = None
    _failures: int = 0
    _chance: random.Random = field(default_factory=random.Random)

    def check(self) -> None:
        """Return if the server may be asked.

        Raises:
            ExtractionError: the last failure; nothing may be sent yet.
        """
        if self._error is not None and self.clock.steady_seconds() < self._until:
            raise type(self._error)(str(self._error))

    def trip(self, error: ExtractionError, seconds: float = 0.0) -> ExtractionError:
        """Open the breaker for a time, or for 15, 30, 60, 120 s by the number of failures in a row; returns the
        error.
        """
        self._failures += 1
        wait = max(seconds, BACK_OFF_SECONDS[min(self._failures, len(BACK_OFF_SECONDS)) - 1])
        wait *= 1 + JITTER * self._chance.random()
        self._error, self._until = error, self.clock.steady_seconds() + min(wait, MAX_WAIT_SECONDS)
        return error

    def worked(self) -> None:
        """Close the breaker, since the server answered."""
        self._failures, self._error = 0, None
