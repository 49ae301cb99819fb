"""Choose the hits that become bites: clearly relevant, not shown before, no duplicates, within the budget. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engram.enums import Importance, Scope, Status, Verdict, Voice
from engram.models.contradictions import is_kept_by_hand
from engram.models.entries import is_quotation_id
from engram.models.episodes import Episode
from engram.recollection.relevance import FeatureContext, rate_hit
from engram.search.episodes.branches import BRANCH_DEDUCTION
from engram.search.episodes.support import Support
from engram.search.hits import Hit
from engram.text.recollection_stems import same_words, stems
from engram.text.topic_words import topic_words

#: Provisional memories below this confidence are never injected.
PROVISIONAL_CONFIDENCE = 0.5


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How relevant, from 0 to 1, a memory must be to be injected."""

    relevance: float = 0.28
    #: Share of ``relevance`` that a memory of high importance needs.
    high_share: float = 0.9
    #: Factor for a memory of the session itself, which Claude mostly still sees.
    own_session: float = 1.2
    #: Share of the best bite's relevance that a further bite needs.
    below_best: float = 0.5


@dataclass(frozen=True, slots=True)
class Bite:
    """One memory or quotation that is injected."""

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
    #: Whose it is, where it is not the person's own, such as "pack django-rules"; else "".
    origin: str = ""
    #: The branch that it was learned on, if it was not merged and the session is elsewhere; else "".
    branch: str = ""
    #: The question that a quotation answers; "" if it is not told, and for a memory.
    asked: str = ""

    @property
    def is_quotation(self) -> bool:
        """True for what somebody said, word for word; False for a memory or a line about a failure."""
        return is_quotation_id(self.episode_id)


@dataclass(frozen=True, slots=True)
class InjectionRequest:
    """A prompt or tool call for which bites are chosen, and the session that it belongs to."""

    #: The prompt, or the file and command.
    text: str
    #: Claude Code's session.
    session_id: str = ""
    #: Row id of its project; None for none.
    project_id: int | None = None
    #: Ids of memories that the session was shown.
    shown: Collection[str] = ()
    #: Maximum number of bites.
    bites: int = 3
    #: The branch that the session is on; "" if it is not known.
    branch: str = ""
    now_ms: int = 0
    #: Returns the ids of memories whose source is still in the session's context. It is called after the search: what
    #: was extracted from the session while the search ran is found, and must be barred.
    in_context: Callable[[], Collection[str]] = tuple
    #: Returns the name of the user's own file that says the same as a text; "" for none.
    file_saying: Callable[[str], str] = lambda text: ""


@dataclass(frozen=True, slots=True)
class RatedHit:
    """A memory or passage that was considered for a prompt or tool call, and what became of it."""

    hit: Hit
    #: Its place among the hits, from 0.
    place: int
    #: Its relevance, and the least that it needs.
    score: float
    floor: float
    verdict: Verdict
    #: Feature → value.
    features: Mapping[str, float] = field(default_factory=dict)


def choose_bites(
    hits: Sequence[Hit], request: InjectionRequest, support: Support | None = None, thresholds: Thresholds | None = None
) -> list[Bite]:
    """Return the bites for a prompt, the most relevant first; mostly none. Arguments as in ``rate_hits``."""
    return bites_of(rate_hits(hits, request, support, thresholds))


def rate_hits(
    hits: Sequence[Hit], request: InjectionRequest, support: Support | None = None, thresholds: Thresholds | None = None
) -> list[RatedHit]:
    """Say of every memory whether it becomes a bite, and why not; the most relevant first.

    A bite is a current memory of the session's project or of global scope. A session gets it once, and never two bites
    with the same words.

    Args:
        hits: the hits of a search, the best first.
        request: the prompt and its session.
        support: what speaks for the memories apart from their own text.
        thresholds: how relevant a memory must be.
    """
    thresholds = thresholds or Thresholds()
    context = FeatureContext.of(request.text, support or Support())
    in_context = request.in_context() if hits else ()
    rated: list[RatedHit] = []
    for place, hit in enumerate(hits):
        if hit.episode is None:
            continue
        score, values = rate_hit(hit, context)
        floor = _threshold(hit, request, thresholds)
        if hit.branch:
            score *= 1 - BRANCH_DEDUCTION
        score = min(score * hit.use_factor, 1.0)
        if hit.use_factor < 1 and _is_spared(hit.episode):
            floor *= hit.use_factor
        verdict = why_barred(hit.id, hit.episode, request, in_context)
        if verdict is None and score >= floor and request.file_saying(hit.text):
            verdict = Verdict.STANDS_IN_FILE
        rated.append(
            RatedHit(
                hit=hit,
                place=place,
                score=score,
                floor=floor,
                verdict=verdict or (Verdict.SHOWN if score >= floor else Verdict.BELOW_FLOOR),
                features=values,
            )
        )
    return deduplicate(sorted(rated, key=lambda rated_hit: -rated_hit.score), request.bites, thresholds.below_best)


def deduplicate(rated: Sequence[RatedHit], bites: int, below_best: float) -> list[RatedHit]:
    """Let only the best be shown, without those that say the same as a better one.

    Args:
        rated: the best first.
        bites: maximum number of bites.
        below_best: share of the best relevance that a bite needs.
    """
    chosen: list[RatedHit] = []
    judged: list[RatedHit] = []
    for rated_hit in rated:
        if rated_hit.verdict is Verdict.SHOWN:
            verdict = _compare(rated_hit, chosen, bites, below_best)
            rated_hit = replace(rated_hit, verdict=verdict)
            if verdict is Verdict.SHOWN:
                chosen.append(rated_hit)
        judged.append(rated_hit)
    return judged


def _compare(rated_hit: RatedHit, chosen: Sequence[RatedHit], bites: int, below_best: float) -> Verdict:
    """Return the verdict on a relevant memory, given the better ones."""
    if len(chosen) >= bites:
        return Verdict.NO_ROOM
    if chosen and rated_hit.score < chosen[0].score * below_best:
        return Verdict.FAR_BELOW_BEST
    if any(_says_the_same(rated_hit.hit, better.hit) for better in chosen):
        return Verdict.REPEATS
    return Verdict.SHOWN


def bites_of(rated: Sequence[RatedHit]) -> list[Bite]:
    """Return the bites of the memories that are shown."""
    return [_bite(rated_hit.score, rated_hit.hit) for rated_hit in rated if rated_hit.verdict is Verdict.SHOWN]


def _threshold(hit: Hit, request: InjectionRequest, thresholds: Thresholds) -> float:
    threshold = thresholds.relevance * (thresholds.high_share if hit.importance == Importance.HIGH else 1.0)
    is_own = bool(request.session_id) and hit.session_id == request.session_id
    return min(threshold * thresholds.own_session, 0.95) if is_own else threshold


def _is_spared(episode: Episode) -> bool:
    """Return True for a memory that only falls behind others when nobody uses it, and needs no more relevance."""
    return is_kept_by_hand(episode) or episode.importance == Importance.HIGH


def may_inject(episode: Episode, request: InjectionRequest) -> bool:
    """Return False for a memory that is never injected, or that belongs to another project."""
    return _why_never(episode, request) is None


def why_barred(
    episode_id: str, episode: Episode, request: InjectionRequest, in_context: Collection[str]
) -> Verdict | None:
    """Return why a memory is not injected, however relevant it is; None if it may be.

    ``in_context`` is what ``request.in_context`` returned after the memory was read.
    """
    reason = _why_never(episode, request)
    if reason is None and episode_id in request.shown:
        return Verdict.ALREADY_SHOWN
    return Verdict.IN_CONTEXT if reason is None and episode_id in in_context else reason


def _why_never(episode: Episode, request: InjectionRequest) -> Verdict | None:
    is_visible = episode.scope == Scope.GLOBAL or (
        request.project_id is not None and episode.project_id == request.project_id
    )
    if not is_visible:
        return Verdict.OTHER_PROJECT
    if episode.suspect:
        return Verdict.SUSPECT
    return None if _is_in_force(episode, request.now_ms) else Verdict.NOT_CURRENT


def _is_in_force(episode: Episode, now_ms: int) -> bool:
    is_confirmed = episode.status == Status.ACTIVE or (
        episode.status == Status.PROVISIONAL and episode.confidence >= PROVISIONAL_CONFIDENCE
    )
    is_over = episode.valid_to_ms is not None and now_ms > 0 and episode.valid_to_ms <= now_ms
    return is_confirmed and not (episode.superseded_by or episode.is_lowered or is_over)


def _says_the_same(first: Hit, second: Hit) -> bool:
    return same_words(stems(topic_words(first.text)), stems(topic_words(second.text)))


def _bite(relevance: float, hit: Hit) -> Bite:
    episode = hit.episode
    return Bite(
        episode_id=hit.id,
        text=hit.text,
        created_at_ms=hit.created_at_ms,
        importance=hit.importance,
        voice=Voice.from_stored(hit.role) if episode is None else episode.voice,
        relevance=round(relevance, 4),
        evidence=tuple(place.uuid for place in hit.evidence if place.uuid),
        stale_reason="" if episode is None else episode.stale_reason,
        origin="" if episode is None else episode.origin,
        branch=hit.branch,
        asked=hit.asked,
    )
