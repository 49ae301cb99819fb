"""Trips and stops."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Trip:
    """A trip of a bus."""

    id: str
    line: str
    departs: datetime


@dataclass(frozen=True)
class Stop:
    """A stop of a trip."""

    id: str
    name: str
    arrives: datetime
