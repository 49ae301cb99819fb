"""Choose the hits that become bites: clearly relevant, not shown before, no duplicates, within the budget. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engram.enums import Importance, Scope, Status, Voice
from engram.models.episodes import Episode
from engram.recollection.relevance import FeatureContext, Support, relevance
from engram.search.episodes.branches import BRANCH_DEDUCTION
from engram.search.hits import Hit
from engram.text.recollection_stems import same_words, stems
from engram.text.topic_words import topic_words

#: Provisional memories below this confidence are never injected.
PROVISIONAL_CONFIDENCE = 0.5


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How relevant, from 0 to 1, a memory must be to be injected."""

    relevance: float = 0.18
    #: Share of ``relevance`` that a memory of high importance needs.
    high_share: float = 0.9
    #: Factor for a memory of the session itself, which Claude mostly still sees.
    own_session: float = 1.2
    #: Share of the best bite's relevance that a further bite needs.
    below_best: float = 0.7


@dataclass(frozen=True, slots=True)
class Bite:
    """One memory that is injected."""

    episode_id: str
    #: One line; shortened when it is rendered.
    text: str
    created_at_ms: int
    importance: Importance
    voice: Voice
    relevance: float
    #: Uuids of the entries that the memory rests on.
    evidence: tuple[str, ...]
    stale_reason: str = ""
    #: The branch that it was learned on, if it was not merged and the session is elsewhere; else "".
    branch: str = ""


@dataclass(frozen=True, slots=True)
class InjectionRequest:
    """A prompt or tool call for which bites are chosen, and the session that it belongs to."""

    #: The prompt, or the file and command.
    text: str
    #: Claude Code's session.
    session_id: str = ""
    #: Row id of its project; None for none.
    project_id: int | None = None
    #: Ids of memories that the session was shown, or whose source is still in its context.
    shown: Collection[str] = ()
    #: Maximum number of bites.
    bites: int = 3
    #: The branch that the session is on; "" if it is not known.
    branch: str = ""
    now_ms: int = 0


def choose_bites(
    hits: Sequence[Hit], request: InjectionRequest, support: Support | None = None, thresholds: Thresholds | None = None
) -> list[Bite]:
    """Return the bites for a prompt, the most relevant first; mostly none.

    A bite is a current memory of the session's project or of global scope. A session gets it once, and never two bites
    with the same words.

    Args:
        hits: the hits of a search, the best first.
        request: the prompt and its session.
        support: the passages that fit the prompt.
        thresholds: how relevant a memory must be.
    """
    thresholds = thresholds or Thresholds()
    context = FeatureContext.of(request.text, hits, support or Support())
    rated: list[tuple[float, Hit]] = []
    for rank, hit in enumerate(hits):
        if hit.episode is None or hit.id in request.shown or not may_inject(hit.episode, request):
            continue
        score = relevance(hit, rank, context) * (1 - BRANCH_DEDUCTION if hit.branch else 1)
        if score >= _threshold(hit, request, thresholds):
            rated.append((score, hit))
    return deduplicate(sorted(rated, key=lambda pair: -pair[0]), request.bites, thresholds.below_best)


def deduplicate(rated: Sequence[tuple[float, Hit]], bites: int, below_best: float) -> list[Bite]:
    """Return the best of rated hits as bites, without those that say the same as a better one.

    Args:
        rated: relevance and hit, the best first.
        bites: maximum number of bites.
        below_best: share of the best relevance that a bite needs.
    """
    chosen: list[tuple[float, Hit]] = []
    for score, hit in rated:
        if len(chosen) >= bites or score < rated[0][0] * below_best:
            break
        if not any(_says_the_same(hit, other) for _, other in chosen):
            chosen.append((score, hit))
    return [_bite(score, hit) for score, hit in chosen]


def _threshold(hit: Hit, request: InjectionRequest, thresholds: Thresholds) -> float:
    threshold = thresholds.relevance * (thresholds.high_share if hit.importance == Importance.HIGH else 1.0)
    is_own = bool(request.session_id) and hit.session_id == request.session_id
    return min(threshold * thresholds.own_session, 0.95) if is_own else threshold


def may_inject(episode: Episode, request: InjectionRequest) -> bool:
    """Return False for a memory that is never injected, or that belongs to another project."""
    is_confirmed = episode.status == Status.ACTIVE or (
        episode.status == Status.PROVISIONAL and episode.confidence >= PROVISIONAL_CONFIDENCE
    )
    is_visible = episode.scope == Scope.GLOBAL or (
        request.project_id is not None and episode.project_id == request.project_id
    )
    is_over = episode.valid_to_ms is not None and request.now_ms > 0 and episode.valid_to_ms <= request.now_ms
    return (
        is_confirmed and is_visible and not (episode.suspect or episode.superseded_by or episode.is_lowered or is_over)
    )


def _says_the_same(first: Hit, second: Hit) -> bool:
    return same_words(stems(topic_words(first.text)), stems(topic_words(second.text)))


def _bite(relevance: float, hit: Hit) -> Bite:
    assert hit.episode is not None
    return Bite(
        episode_id=hit.id,
        text=hit.text,
        created_at_ms=hit.created_at_ms,
        importance=hit.importance,
        voice=hit.episode.voice,
        relevance=round(relevance, 4),
        evidence=tuple(place.uuid for place in hit.evidence if place.uuid),
        stale_reason=hit.episode.stale_reason,
        branch=hit.branch,
    )
