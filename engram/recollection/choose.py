"""Which hits become bites: relevant beyond doubt, not shown before, not twice the same, inside the budget. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engram.enums import Importance, Scope, Status, Voice
from engram.models.episodes import Episode
from engram.recollection.prompt_filter import telling_words
from engram.recollection.relevance import Answer, Support, relevance
from engram.search.hits import Hit
from engram.text.stems import same_words, stems

#: Provisional memories below this confidence are never injected.
PROVISIONAL_CONFIDENCE = 0.5


@dataclass(frozen=True, slots=True)
class Floors:
    """Relevance (0 to 1) below which nothing is said."""

    relevance: float = 0.18
    #: The floor for memories of high importance is this share of it.
    high_share: float = 0.9
    #: A memory of the session itself, which Claude mostly still sees, must be this much surer.
    own_session: float = 1.2
    #: A further bite must have this share of the best one's relevance.
    below_best: float = 0.7


@dataclass(frozen=True, slots=True)
class Bite:
    """One memory that is brought up."""

    episode_id: str
    #: One line; shortened when it is rendered.
    text: str
    created_at_ms: int
    importance: Importance
    #: user, assistant or agent.
    voice: Voice
    relevance: float
    #: Uuids of the entries that the memory rests on.
    evidence: tuple[str, ...]
    stale_reason: str = ""


@dataclass(frozen=True, slots=True)
class Asking:
    """What is at hand when bites are chosen."""

    #: The prompt, or the file and command.
    text: str
    #: Claude Code's session.
    session_id: str = ""
    #: Row id of its project; None for none.
    project_id: int | None = None
    #: Ids of memories that this session has had, or that rest on what its context still holds.
    shown: Collection[str] = ()
    #: Most bites.
    bites: int = 3
    now_ms: int = 0


def choose_bites(
    hits: Sequence[Hit], asking: Asking, support: Support | None = None, floors: Floors | None = None
) -> list[Bite]:
    """The bites for one prompt, the best first; mostly none.

    Only active memories of the session's own project or of global scope, each once a session, and no two of the
    same words.

    Args:
        hits: what a search has found, the best first.
        asking: the prompt, and who asks.
        support: what was said that fits the prompt.
        floors: how sure it must be.
    """
    floors = floors or Floors()
    answer = Answer.of(asking.text, hits, support or Support())
    rated: list[tuple[float, Hit]] = []
    for rank, hit in enumerate(hits):
        if hit.episode is None or hit.id in asking.shown or not may_inject(hit.episode, asking):
            continue
        sure = relevance(hit, rank, answer)
        if sure >= _floor(hit, asking, floors):
            rated.append((sure, hit))
    return spread_out(sorted(rated, key=lambda one: -one[0]), asking.bites, floors.below_best)


def spread_out(rated: Sequence[tuple[float, Hit]], bites: int, below_best: float) -> list[Bite]:
    """The best of rated hits, leaving out what says the same as a better one."""
    chosen: list[tuple[float, Hit]] = []
    for sure, hit in rated:
        if len(chosen) >= bites or sure < rated[0][0] * below_best:
            break
        if not any(_says_the_same(hit, other) for _, other in chosen):
            chosen.append((sure, hit))
    return [_bite(sure, hit) for sure, hit in chosen]


def _floor(hit: Hit, asking: Asking, floors: Floors) -> float:
    floor = floors.relevance * (floors.high_share if hit.importance == Importance.HIGH else 1.0)
    is_own = bool(asking.session_id) and hit.session_id == asking.session_id
    return min(floor * floors.own_session, 0.95) if is_own else floor


def may_inject(episode: Episode, asking: Asking) -> bool:
    """False for what is never injected, and for what belongs to another project."""
    is_firm = episode.status == Status.ACTIVE or (
        episode.status == Status.PROVISIONAL and episode.confidence >= PROVISIONAL_CONFIDENCE
    )
    is_ours = episode.scope == Scope.GLOBAL or (
        asking.project_id is not None and episode.project_id == asking.project_id
    )
    is_over = episode.valid_to_ms is not None and asking.now_ms > 0 and episode.valid_to_ms <= asking.now_ms
    return is_firm and is_ours and not (episode.suspect or episode.superseded_by or episode.is_lowered or is_over)


def _says_the_same(one: Hit, other: Hit) -> bool:
    return same_words(stems(telling_words(one.text)), stems(telling_words(other.text)))


def _bite(relevance: float, hit: Hit) -> Bite:
    assert hit.episode is not None
    return Bite(
        hit.id,
        hit.text,
        hit.created_at_ms,
        hit.importance,
        hit.episode.voice,
        round(relevance, 4),
        tuple(place.uuid for place in hit.evidence if place.uuid),
        hit.episode.stale_reason,
    )
