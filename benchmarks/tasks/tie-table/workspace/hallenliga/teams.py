"""Teams and what they have reached."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Team:
    """A team in the course of a season."""

    name: str
    played: int = 0
    wins: int = 0
    points: int = 0
    goals_for: int = 0
    goals_against: int = 0
    penalty_minutes: int = 0

    @property
    def goal_difference(self):
        """Goals shot minus goals received."""
        return self.goals_for - self.goals_against
