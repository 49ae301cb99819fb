"""Teams."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class Team:
    """A team with its plan."""

    id: int
    slug: str
    plan: str
    created: date
    seats: int = 5
