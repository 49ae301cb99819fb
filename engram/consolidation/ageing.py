"""How memories age. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engram.enums import Importance, Source, Status
from engram.models.episodes import Episode

DAY_MS = 86_400_000
#: Days for which a memory keeps its full weight.
ACTIVE_DAYS = 30
#: Weight of a normal memory after that.
AGED_WEIGHT = 0.7
#: Days after which an unconfirmed provisional memory is archived.
PROVISIONAL_DAYS = 60


@dataclass(frozen=True, slots=True)
class Ageing:
    """The effect of age on a memory: a weight, and a status with its reason."""

    weight: float
    status: Status
    reason: str = ""


def aged(episode: Episode, now_ms: int, archive_days: int) -> Ageing:
    """Return the status and weight that a memory's age calls for, counted from when it was stored or last used.

    Pinned, high-importance and manually saved memories never age.
    """
    same = Ageing(episode.weight, episode.status)
    if episode.is_pinned or episode.importance == Importance.HIGH or episode.source == Source.MANUAL:
        return same
    last_use = max(episode.created_at_ms, episode.kept_at_ms, episode.accessed_at_ms or 0)
    age_days = (now_ms - last_use) / DAY_MS
    if episode.status == Status.ACTIVE and age_days >= archive_days:
        return Ageing(episode.weight, Status.ARCHIVED, f"not used for {archive_days} days")
    if episode.status == Status.PROVISIONAL and age_days >= PROVISIONAL_DAYS:
        return Ageing(episode.weight, Status.ARCHIVED, f"not confirmed for {PROVISIONAL_DAYS} days")
    if age_days >= ACTIVE_DAYS and episode.weight > AGED_WEIGHT:
        return Ageing(AGED_WEIGHT, episode.status, f"older than {ACTIVE_DAYS} days")
    return same
