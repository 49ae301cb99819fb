"""Which hits become bites: relevant beyond doubt, not shown before, not twice the same, inside the budget. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engram.models.episodes import Episode
from engram.recollection.gate import telling_words
from engram.recollection.words import overlap, stems
from engram.search.query import Hit

#: Provisional memories below this confidence are never injected.
PROVISIONAL_CONFIDENCE = 0.5
#: Two bites whose words overlap this much say the same.
SAME_WORDS = 0.6


@dataclass(frozen=True, slots=True)
class Floors:
    """Relevance below which nothing is said. A hit passes by its cosine, or by less of it and shared words."""

    #: Enough alone.
    cosine: float = 0.45
    #: Enough where at least ``shared`` of the prompt's words stand in the memory too.
    weak_cosine: float = 0.33
    #: Share of the prompt's telling words.
    shared: float = 0.34
    #: Share that is enough where there is no cosine (no model).
    shared_alone: float = 0.5
    #: Taken off the cosines for memories of high importance.
    high_bonus: float = 0.02
    #: Added to the cosines for memories of the session itself, which Claude mostly still sees.
    own_session: float = 0.08
    #: So much below the best hit's relevance is no longer worth a line.
    below_best: float = 0.12


@dataclass(frozen=True, slots=True)
class Bite:
    """One memory that is brought up."""

    episode_id: str
    #: One line; shortened when it is rendered.
    text: str
    created_at_ms: int
    importance: str
    #: user, assistant or agent.
    voice: str
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
    #: Ids of memories that this session has had.
    shown: Collection[str] = ()
    #: Most bites.
    bites: int = 3
    now_ms: int = 0


def choose_bites(hits: Sequence[Hit], asking: Asking, floors: Floors | None = None) -> list[Bite]:
    """The bites for one prompt, the best first; mostly none.

    Only active memories of the session's own project or of global scope, each once a session, and no two of the
    same words.
    """
    floors = floors or Floors()
    wanted = stems(telling_words(asking.text))
    rated = sorted(
        ((relevance, hit) for hit in hits if (relevance := _relevance(hit, asking, wanted, floors)) is not None),
        key=lambda one: -one[0],
    )
    chosen: list[tuple[float, Hit]] = []
    for relevance, hit in rated:
        if len(chosen) >= asking.bites or relevance < rated[0][0] - floors.below_best:
            break
        if not any(_says_the_same(hit, other) for _, other in chosen):
            chosen.append((relevance, hit))
    return [_bite(relevance, hit) for relevance, hit in chosen]


def may_inject(episode: Episode, asking: Asking) -> bool:
    """False for what is never injected, and for what belongs to another project."""
    is_firm = episode.status == "active" or (
        episode.status == "provisional" and episode.confidence >= PROVISIONAL_CONFIDENCE
    )
    is_ours = episode.scope == "global" or (asking.project_id is not None and episode.project_id == asking.project_id)
    is_over = episode.valid_to_ms is not None and asking.now_ms > 0 and episode.valid_to_ms <= asking.now_ms
    return is_firm and is_ours and not (episode.suspect or episode.superseded_by or episode.is_lowered or is_over)


def _relevance(hit: Hit, asking: Asking, wanted: Collection[str], floors: Floors) -> float | None:
    """How relevant a hit is, on the scale of the cosine; None where it must not or need not be said."""
    episode = hit.episode
    if episode is None or hit.id in asking.shown or not may_inject(episode, asking):
        return None
    words = stems(telling_words(f"{episode.summary} {' '.join(episode.entities)}"))
    shared = len([one for one in wanted if one in words]) / len(wanted) if wanted else 0.0
    if hit.cosine is None:
        return shared if shared >= floors.shared_alone else None
    shift = floors.high_bonus if episode.importance == "high" else 0.0
    if asking.session_id and hit.session_id == asking.session_id:
        shift -= floors.own_session
    cosine = hit.cosine + shift
    if cosine >= floors.cosine or (cosine >= floors.weak_cosine and shared >= floors.shared):
        return cosine + 0.2 * shared
    return None


def _says_the_same(one: Hit, other: Hit) -> bool:
    return overlap(stems(telling_words(one.text)), stems(telling_words(other.text))) >= SAME_WORDS


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
