"""Choose the memories to show as bites: relevant ones, not shown before, without duplicates, within the budget."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import PurePosixPath

from engram.enums import Importance, Kind, Scope, Status, Verdict, Voice
from engram.models.memories.judgements import is_kept_by_hand
from engram.models.memories.memory_records import Memory
from engram.models.sessions.passage_rows import is_quotation_id
from engram.models.sessions.prompt_outcomes import Candidate
from engram.search.hits import BRANCH_DEDUCTION, Hit
from engram.search.support import Support, stems_of
from engram.system.lazy_regex import lazy_regex
from engram.text.words import same_words, stems, topic_stems, topic_words

# -- Estimate the probability that a text is worth showing for a prompt, by logistic regression over a few features.
# Pure.
#
# The features have the same meaning for every kind of text: memories by any author, and quotations.
# ``benchmarks/gate.py fit --write`` fits the weights on judged prompts of real coding sessions and writes them with
# their provenance to ``relevance_weights.json``. Run it again when the ranking or an extractor changes.

WEIGHTS_FILE = "relevance_weights.json"
#: Features of closeness, features of words, and features of text without a vector, for which words matter more.
FEATURES = (
    *("meaning", "source", "turn"),
    *("rare", "words", "length"),
    *("unknown", "shared_alone", "words_alone", "support_alone"),
)
#: Features that can only lower a score, and those that can raise or lower it; all others can only raise it.
AGAINST, EITHER = frozenset({"length"}), frozenset({"unknown"})
#: Upper limits of features: of a share, of a number of words, and of a sum of rarities.
MAX_SHARED, MAX_WORDS, MAX_RARITY = 0.6, 6, 20.0


@dataclass(frozen=True, slots=True)
class Weights:
    """The intercept of a logistic regression and a weight for each feature."""

    intercept: float
    by_feature: Mapping[str, float]


@cache
def load_weights() -> Weights:
    file = resources.files(__package__).joinpath(WEIGHTS_FILE)
    weights = json.loads(file.read_text(encoding="utf-8"))
    return Weights(weights["intercept"], weights["by_feature"])


@dataclass(frozen=True, slots=True)
class FeatureContext:
    """The prompt's words, and the evidence for hits other than their own text."""

    #: Stems of the prompt's informative words.
    wanted: frozenset[str]
    support: Support

    @classmethod
    def of(cls, text: str, support: Support) -> FeatureContext:
        return cls(wanted=stems(topic_words(text)), support=support)


def features(hit: Hit, context: FeatureContext) -> dict[str, float]:
    """Return the features of a text by name, as listed in ``FEATURES``."""
    support = context.support
    shared = context.wanted & stems_of(hit)
    rare = min(sum(support.rarity.get(stem, 0.0) for stem in shared), MAX_RARITY)
    share = min(len(shared) / max(len(context.wanted), 1), MAX_SHARED)
    words = float(min(len(context.wanted & topic_stems(hit.text)), MAX_WORDS))
    values = dict.fromkeys(FEATURES, 0.0) | {"rare": rare, "words": words, "length": math.log1p(len(context.wanted))}
    if hit.cosine is None:
        # A text without a turn, such as a saved memory, is supported only by its own words.
        of_turn = share / MAX_SHARED if hit.turn_id is None else support.text_by_turn.get(hit.turn_id, 0.0)
        return values | {"unknown": 1.0, "shared_alone": share, "words_alone": words, "support_alone": of_turn}
    return values | {
        "meaning": hit.cosine - support.usual_cosine,
        "source": support.by_source.get(hit.row_id, hit.cosine) - support.usual_cosine,
        "turn": support.by_turn.get(hit.row_id, hit.cosine) - support.usual_cosine,
    }


def rate_hit(hit: Hit, context: FeatureContext) -> tuple[float, dict[str, float]]:
    """Return the probability that a hit is relevant to the prompt, and the features used to compute it."""
    values, weights = features(hit, context), load_weights()
    return logistic(weights, values), {name: values[name] for name in weights.by_feature}


def logistic(weights: Weights, values: Mapping[str, float]) -> float:
    """Return the value of a logistic regression, from 0 to 1."""
    total = weights.intercept + sum(weight * values[name] for name, weight in weights.by_feature.items())
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, total))))


def least_meaning(context: FeatureContext, floor: float) -> float:
    """Return by how much a passage's cosine must exceed the usual one to reach a floor if its words match perfectly."""
    weights = load_weights()
    by_feature = weights.by_feature
    wanted = len(context.wanted)
    words = by_feature["rare"] * MAX_RARITY + by_feature["words"] * min(wanted, MAX_WORDS)
    missing = math.log(floor / (1 - floor)) - weights.intercept - by_feature["length"] * math.log1p(wanted) - words
    return missing / sum(by_feature[name] for name in ("meaning", "source", "turn"))


# -- Choose the hits that become bites: clearly relevant ones, not shown before, without duplicates. Pure.

#: Provisional memories below this confidence are never injected.
PROVISIONAL_CONFIDENCE = 0.5


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The minimum relevance of a memory to inject, from 0 to 1, and the factors that change it."""

    relevance: float = 0.28
    #: Factor for a memory of high importance.
    high_share: float = 0.9
    #: Factor for a memory from the session itself, because Claude usually still sees its source.
    own_session: float = 1.2
    #: Minimum relevance of each further bite, as a share of the relevance of the best one.
    below_best: float = 0.5


#: Prefix of the ids under which shown fixes are recorded if only a transcript contains them.
SEEN_FIX = "fix_"


@dataclass(frozen=True, slots=True)
class Bite:
    episode_id: str
    #: The text, before rendering puts it on one line and shortens it.
    text: str
    created_at_ms: int
    importance: Importance
    voice: Voice
    relevance: float
    #: Uuids of the transcript entries that are its evidence.
    evidence: tuple[str, ...]
    stale_reason: str = ""
    #: Its owner, such as "pack django-rules"; "" if that is the user.
    origin: str = ""
    #: The unmerged branch that it was learned on, if the session is on another branch; otherwise "".
    branch: str = ""
    #: The question that a quotation answers; "" if it is not shown, and for a memory.
    asked: str = ""

    @property
    def is_quotation(self) -> bool:
        """True for words quoted from a session; False for a memory or a line about a failure."""
        return is_quotation_id(self.episode_id)

    @property
    def is_seen_fix(self) -> bool:
        """True for a fix derived from a transcript, which is not a quotation and whose id no command accepts."""
        return self.episode_id.startswith(SEEN_FIX)


@dataclass(frozen=True, slots=True)
class InjectionRequest:
    """A prompt or tool call for which bites are chosen, and its session."""

    #: The prompt, or the file and command.
    text: str
    #: Claude Code's session.
    session_id: str = ""
    #: Row id of its project; None if there is none.
    project_id: int | None = None
    #: Ids of memories that the session has already been shown.
    shown: Collection[str] = ()
    #: Maximum number of bites to choose.
    bites: int = 3
    #: The session's branch; "" if unknown.
    branch: str = ""
    now_ms: int = 0
    #: Returns the ids of memories with a source that is still in the session's context. Called after the search,
    #: because the search may also find memories that are extracted from the session in the meantime; they must be left
    #: out.
    in_context: Callable[[], Collection[str]] = tuple
    #: Returns the name of the user's file that says the same as a text; "" if there is none.
    file_saying: Callable[[str], str] = lambda text: ""


@dataclass(frozen=True, slots=True)
class RatedHit:
    """A memory or passage that was considered for a prompt or tool call, and its verdict."""

    hit: Hit
    #: Its place among the hits, from 0.
    place: int
    #: Its relevance, and the minimum relevance that it must reach.
    score: float
    floor: float
    verdict: Verdict
    #: Feature → value.
    features: Mapping[str, float] = field(default_factory=dict)


def rate_hits(
    hits: Sequence[Hit], request: InjectionRequest, support: Support | None = None, thresholds: Thresholds | None = None
) -> list[RatedHit]:
    """Decide for every memory whether it becomes a bite, and if not, why; most relevant first.

    Only current memories of the session's project or of global scope become bites. A session is shown each memory only
    once, and never two bites that say the same.
    """
    thresholds = thresholds or Thresholds()
    context = FeatureContext.of(request.text, support or Support())
    in_context = request.in_context() if hits else ()
    rated: list[RatedHit] = []
    for place, hit in enumerate(hits):
        if hit.memory is None:
            continue
        score, values = rate_hit(hit, context)
        floor = _threshold(hit, request, thresholds)
        if hit.branch:
            score *= 1 - BRANCH_DEDUCTION
        score = min(score * hit.use_factor, 1.0)
        if hit.use_factor < 1 and _is_spared(hit.memory):
            floor *= hit.use_factor
        verdict = why_barred(hit.id, hit.memory, request, in_context)
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
    """Limit the hits to show to the best ones, leaving out any that repeats a better one.

    Args:
        below_best: minimum relevance, as a share of the relevance of the best hit.
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
    """Return the verdict on a relevant memory, given the better ones in ``chosen``."""
    if len(chosen) >= bites:
        return Verdict.NO_ROOM
    if chosen and rated_hit.score < chosen[0].score * below_best:
        return Verdict.FAR_BELOW_BEST
    if any(_says_the_same(rated_hit.hit, better.hit) for better in chosen):
        return Verdict.REPEATS
    return Verdict.SHOWN


def bites_of(rated: Sequence[RatedHit]) -> list[Bite]:
    return [_bite(rated_hit.score, rated_hit.hit) for rated_hit in rated if rated_hit.verdict is Verdict.SHOWN]


def _threshold(hit: Hit, request: InjectionRequest, thresholds: Thresholds) -> float:
    threshold = thresholds.relevance * (thresholds.high_share if hit.importance == Importance.HIGH else 1.0)
    is_own = bool(request.session_id) and hit.session_id == request.session_id
    return min(threshold * thresholds.own_session, 0.95) if is_own else threshold


def _is_spared(memory: Memory) -> bool:
    """Return True for a memory that ranks lower when it goes unused, but needs no higher relevance to be shown."""
    return is_kept_by_hand(memory) or memory.importance == Importance.HIGH


def why_barred(
    episode_id: str, memory: Memory, request: InjectionRequest, in_context: Collection[str]
) -> Verdict | None:
    """Return why a memory must not be injected, regardless of its relevance; None if it may be.

    ``in_context`` must be a result of ``request.in_context`` that is newer than the memory.
    """
    reason = _why_never(memory, request)
    if reason is None and episode_id in request.shown:
        return Verdict.ALREADY_SHOWN
    return Verdict.IN_CONTEXT if reason is None and episode_id in in_context else reason


def _why_never(memory: Memory, request: InjectionRequest) -> Verdict | None:
    is_visible = memory.scope == Scope.GLOBAL or (
        request.project_id is not None and memory.project_id == request.project_id
    )
    if not is_visible:
        return Verdict.OTHER_PROJECT
    if memory.suspect:
        return Verdict.SUSPECT
    return Verdict.NOT_CURRENT if why_not_in_force(memory, request.now_ms) else None


def why_not_in_force(memory: Memory, now_ms: int) -> str:
    """Return why a memory is not in force, as text for display; "" if it is in force."""
    if memory.superseded_by:
        return f"{memory.superseded_by} replaced it"
    if memory.status == Status.PROVISIONAL and memory.confidence < PROVISIONAL_CONFIDENCE:
        return "it is doubtful: nothing has confirmed it yet"
    if memory.status not in (Status.ACTIVE, Status.PROVISIONAL):
        return f"it is {memory.status.told}"
    if memory.is_lowered:
        return "it was judged wrong"
    is_over = memory.valid_to_ms is not None and now_ms > 0 and memory.valid_to_ms <= now_ms
    return "it is no longer valid" if is_over else ""


def _says_the_same(first: Hit, second: Hit) -> bool:
    return same_words(topic_stems(first.text), topic_stems(second.text))


def _bite(relevance: float, hit: Hit) -> Bite:
    memory = hit.memory
    return Bite(
        episode_id=hit.id,
        text=hit.text,
        created_at_ms=hit.created_at_ms,
        importance=hit.importance,
        # A passage of several speakers counts as the assistant's, never as the user's.
        voice=Voice.from_stored(hit.role or Voice.ASSISTANT) if memory is None else memory.voice,
        relevance=round(relevance, 4),
        evidence=tuple(place.uuid for place in hit.evidence if place.uuid),
        stale_reason="" if memory is None else memory.stale_reason,
        origin="" if memory is None else memory.origin,
        branch=hit.branch,
        asked=hit.asked,
    )


# -- Select what to record about the memories considered for a prompt. Pure.

#: Maximum number of memories to record that were not shown; the best are kept.
MAX_UNSHOWN = 3


def find_decisive(rated: Sequence[RatedHit]) -> RatedHit | None:
    """Return the memory that decided the outcome: the best one shown, otherwise the best one held back; None if there
    is none.

    Among those held back, memories that were relevant enough take precedence. A memory of no relevance never decides.
    """
    shown = [rated_hit for rated_hit in rated if rated_hit.verdict is Verdict.SHOWN]
    near = [rated_hit for rated_hit in rated if rated_hit.verdict is not Verdict.NOT_NAMED and rated_hit.score > 0]
    kept_back = [rated_hit for rated_hit in near if rated_hit.score >= rated_hit.floor]
    below = [rated_hit for rated_hit in near if rated_hit.verdict is Verdict.BELOW_FLOOR]
    return next(iter([*shown, *kept_back, *below]), None)


def recorded_candidates(rated: Sequence[RatedHit]) -> tuple[Candidate, ...]:
    """Return the memories to record, by rank: all that were shown, the best one that was not, and others that came
    close.

    A memory of no relevance is never recorded.
    """
    shown = [to_candidate(rated_hit) for rated_hit in rated if rated_hit.verdict is Verdict.SHOWN]
    unshown = [
        to_candidate(rated_hit)
        for rated_hit in rated
        if rated_hit.verdict not in (Verdict.SHOWN, Verdict.NOT_NAMED) and rated_hit.score > 0
    ]
    near = unshown[:1] + [candidate for candidate in unshown[1:] if candidate.is_near]
    return tuple(sorted((*shown, *near[:MAX_UNSHOWN]), key=lambda candidate: candidate.place))


def to_candidate(rated_hit: RatedHit) -> Candidate:
    return Candidate(
        place=rated_hit.place,
        episode_id=rated_hit.hit.id,
        verdict=rated_hit.verdict,
        score=round(rated_hit.score, 4),
        floor=round(rated_hit.floor, 4),
        features={name: round(value, 4) for name, value in rated_hit.features.items()},
    )


# -- Choose memories for a tool call: only those that mention its file, its command or its error. Pure.

#: Maximum number of bites for a tool call.
MAX_BITES = 1
#: Kinds of memories that may be shown for a tool call.
KINDS = (Kind.DECISION, Kind.PREFERENCE, Kind.FIX, Kind.DEAD_END, Kind.FACT)
#: Minimum share of an error's words that a memory about a failed command must contain.
MIN_ERROR_SHARE = 0.5
#: File names that most projects have; they identify a file only together with its folder.
_COMMON = lazy_regex(
    r"(?:__init__|index|main|mod|lib|app|utils?|types?|setup|conftest|readme|claude)(?:\.\w+)*", re.IGNORECASE
)
#: A memory whose extractor listed more files of its turn than this is not about any of them in particular.
MAX_FILES_ABOUT = 5
_FILE_NAME = lazy_regex(r"[^\s/\\]\.[A-Za-z]\w{0,9}$")
_SUBCOMMAND = lazy_regex(r"[a-z][\w.-]*(?:\s+[a-z][\w:-]*)?")
#: Routine programs, for which no reminder is needed.
_READ_ONLY_PROGRAMS = frozenset(
    "cat cd cp echo find grep head ls mkdir mv pwd rg rm sed sleep tail test touch wc which".split()
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The files, command and error of a tool call."""

    #: File names as written.
    files: tuple[str, ...] = ()
    command: str = ""
    #: First line of its error; "" if it did not fail.
    error: str = ""

    @property
    def text(self) -> str:
        """The text to search for; "" if the call needs no reminder."""
        names = [PurePosixPath(name.replace("\\", "/")).name for name in self.files]
        return " ".join([*names, program_of(self.command) and self.command, self.error]).strip()


def program_of(command: str) -> str:
    """Return the program and subcommand, such as ``go test``; "" for routine programs."""
    match = _SUBCOMMAND.match(command.strip())
    program = match[0] if match else ""
    return "" if program.split(" ")[0] in _READ_ONLY_PROGRAMS else program


def rate_for_tool_call(hits: Sequence[Hit], request: InjectionRequest, call: ToolCall) -> list[RatedHit]:
    """Decide for every memory whether it becomes the bite for a tool call, and if not, why; best first."""
    in_context = request.in_context() if hits else ()
    rated = [
        RatedHit(
            hit=hit, place=place, score=1.0 / (1 + place), floor=0.0, verdict=_verdict(hit, request, call, in_context)
        )
        for place, hit in enumerate(hits)
        if hit.memory is not None
    ]
    return deduplicate(rated, min(request.bites, MAX_BITES), 0.0)


def _verdict(hit: Hit, request: InjectionRequest, call: ToolCall, in_context: Collection[str]) -> Verdict:
    assert hit.memory is not None
    if hit.kind not in KINDS or not is_about(hit, call):
        return Verdict.NOT_NAMED
    return why_barred(hit.id, hit.memory, request, in_context) or Verdict.SHOWN


def is_about(hit: Hit, call: ToolCall) -> bool:
    """Return True if a memory mentions a file of the call, its command, or most of its error.

    A memory for which the local extractor listed many files, because its turn read and changed them, is not about any
    of them in particular; its text must mention the file. What a person or a model listed is what it is about.
    """
    names = hit.memory.entities if hit.memory is not None else ()
    if hit.memory is not None and hit.memory.is_by_rules:
        # The extractor lists the symbols that the text mentions, too.
        files = {name for name in names if _FILE_NAME.search(name) and name not in hit.memory.summary}
        names = names if len(files) <= MAX_FILES_ABOUT else tuple(name for name in names if name not in files)
    memory_text = f" {hit.text} {' '.join(names)} ".lower().replace("\\", "/")
    if any(_names_file(memory_text, name) for name in call.files):
        return True
    program = program_of(call.command).lower()
    if " " in program and re.search(rf"(?<![\w-]){re.escape(program)}(?![\w-])", memory_text):
        return True
    wanted = stems(topic_words(call.error))
    return len(wanted) > 2 and len(wanted & stems(topic_words(memory_text))) >= MIN_ERROR_SHARE * len(wanted)


def _names_file(memory_text: str, name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/").lower())
    wanted = "/".join(path.parts[-2:]) if _COMMON.fullmatch(path.name) else path.name
    return len(wanted) > 3 and re.search(rf"(?<![\w.-]){re.escape(wanted)}(?![\w-])", memory_text) is not None
