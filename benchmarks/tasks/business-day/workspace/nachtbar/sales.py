"""Sales."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Sale:
    """A sale at a local time, without a zone."""

    at: datetime
    #: In Rappen.
    amount: int
