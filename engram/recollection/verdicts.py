"""What is recorded of the memories that were considered for a prompt: which one decided, and which are kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from engram.enums import Verdict
from engram.models.outcomes import Candidate
from engram.recollection.choose import RatedHit
from engram.reports.verdicts import is_near

#: Maximum number of memories that are recorded although they were not shown, the best first.
MAX_UNSHOWN = 3


def find_decisive(rated: Sequence[RatedHit]) -> RatedHit | None:
    """Return the memory that decided: the best that is shown, else the best that was kept back; None for none.

    A memory that would have been relevant enough counts more than any that is not. A memory without any relevance
    decides nothing.

    Args:
        rated: the best first.
    """
    shown = [rated_hit for rated_hit in rated if rated_hit.verdict is Verdict.SHOWN]
    near = [rated_hit for rated_hit in rated if rated_hit.verdict is not Verdict.NOT_NAMED and rated_hit.score > 0]
    kept_back = [rated_hit for rated_hit in near if rated_hit.score >= rated_hit.floor]
    below = [rated_hit for rated_hit in near if rated_hit.verdict is Verdict.BELOW_FLOOR]
    return next(iter([*shown, *kept_back, *below]), None)


def recorded_candidates(rated: Sequence[RatedHit]) -> tuple[Candidate, ...]:
    """Return the memories that are recorded, by place: all that are shown, the best that is not, others that were near.

    A memory without any relevance is not recorded.
    """
    shown = [to_candidate(rated_hit) for rated_hit in rated if rated_hit.verdict is Verdict.SHOWN]
    unshown = [
        to_candidate(rated_hit)
        for rated_hit in rated
        if rated_hit.verdict not in (Verdict.SHOWN, Verdict.NOT_NAMED) and rated_hit.score > 0
    ]
    near = unshown[:1] + [candidate for candidate in unshown[1:] if is_near(candidate)]
    return tuple(sorted((*shown, *near[:MAX_UNSHOWN]), key=lambda candidate: candidate.place))


def to_candidate(rated_hit: RatedHit) -> Candidate:
    """Return a memory as it is recorded."""
    return Candidate(
        place=rated_hit.place,
        episode_id=rated_hit.hit.id,
        verdict=rated_hit.verdict,
        score=round(rated_hit.score, 4),
        floor=round(rated_hit.floor, 4),
        features={name: round(value, 4) for name, value in rated_hit.features.items()},
    )
