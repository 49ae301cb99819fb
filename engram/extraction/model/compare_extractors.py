"""Compare, for one session, what the local extractor keeps with what a language model would keep with a single call.

``find_offer`` chooses the session and estimates the price, without sending anything. ``compare`` makes the single call
to which the user agreed, and stores only its cost. Only ``keep`` stores what the model proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from engram.enums import ComparisonAnswer, Kind
from engram.errors import Conflict
from engram.extraction.candidate import Candidate
from engram.extraction.model.claude_provider import find_claude
from engram.extraction.model.language_model import MAX_ANSWER_TOKENS
from engram.extraction.model.model_request import (
    CHARACTERS_PER_MEMORY,
    MAX_MEMORIES,
    MAX_MEMORIES_LONG,
    SYSTEM_PROMPT,
    batches,
    request_text,
    without_own,
)
from engram.extraction.model.provider import OVERHEAD_TOKENS, Price, api_key_of, is_own_server, price_of
from engram.extraction.model.second_chance import (
    PART_TURNS,
    DistilledPart,
    Part,
    SecondChance,
    read_part,
    waiting_turns,
)
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.transaction import Reader, Store
from engram.models.memories.memory_records import Memory, evidence_of, memories_of_turns
from engram.models.projects.projects import project_by_id
from engram.models.sessions.sessions import SessionRow, session_titles, sessions_of
from engram.models.sessions.stored_turns import StoredTurn, waiting_sessions
from engram.models.work.spend import spending
from engram.models.work.work import is_paused, paused_scopes
from engram.settings import Settings
from engram.system.clock import day_of
from engram.text.titles import title_from
from engram.transcripts.project import is_excluded
from engram.transcripts.registry import has_answers

if TYPE_CHECKING:
    from engram.extraction.model.model_extractor import ModelExtractor

#: Number of the latest sessions to consider.
MAX_LOOKED_AT = 30
#: Minimum number of prompts by a person, and of characters said, in a session.
MIN_PROMPTS, MIN_CHARACTERS = 2, 400
#: Maximum number of characters of a single text that count towards a session's length, because a pasted log says
#: little.
MAX_COUNTED_CHARACTERS = 3_000

#: Characters of a request per token, and tokens that Claude Code adds to a call (docs/language-model.md).
CHARACTERS_PER_TOKEN, CLAUDE_CODE_TOKENS = 4, 540
#: Tokens of an answer per memory, and the usual number of memories in an answer (docs/language-model.md: 1,234 a call).
TOKENS_PER_MEMORY, USUAL_MEMORIES = 250, 5
#: List prices of Claude Haiku 5.5, which uses 30 % more tokens for the same text, and of Claude Haiku 4.5.
HAIKU_LOW, HAIKU_HIGH = Price(0.10 * 1.3, 0.50 * 1.3), Price(1.0, 5.0)
#: The source of these prices.
SOURCE: Final = "the list prices of Claude Haiku of 2026-11-26"

#: Key of the user's answer in ``meta``.
_ANSWER_KEY = "comparison_answer"


@dataclass(frozen=True, slots=True)
class CallPrice:
    """The estimated size and cost of a single call."""

    input_tokens: int
    #: Tokens of an answer of usual length, and of an answer with as many memories as the request allows.
    output_tokens: int
    max_output_tokens: int
    #: Cost of these answers at list price; None if the price of the model is unknown.
    low_dollars: float | None
    high_dollars: float | None
    #: The amount that the budget reserves for the call; Claude Code is stopped when a call reaches it.
    reserved_dollars: float


@dataclass(frozen=True, slots=True)
class Offer:
    """A session for which a comparison can be made. Nothing has been sent yet."""

    #: The ``extractor`` that would be used, as in the settings: claude or openai.
    provider: str
    #: The name of its model in the ledger.
    model: str
    title: str
    #: Display name of the project; "" for none.
    project: str
    #: Day of the session, as YYYY-MM-DD.
    day: str
    #: Number of prompts by a person in the part that would be sent, and whether that part is the complete session.
    prompts: int
    is_whole: bool
    price: CallPrice
    part: Part

    def to_json(self) -> dict[str, Any]:
        return {
            "extractor": self.provider,
            "model": self.model,
            "session": self.part.session.session_id,
            "title": self.title,
            "project": self.project,
            "day": self.day,
            "prompts": self.prompts,
            "whole_session": self.is_whole,
            "price": asdict(self.price),
        }


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """A memory in the form that a comparison shows."""

    kind: Kind
    title: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Comparison:
    offer: Offer
    #: The memories that are stored without a model.
    without: tuple[ShownMemory, ...]
    #: The memories that the model would keep.
    by_model: tuple[ShownMemory, ...]
    #: The cost of the call; for a call through Claude Code, its list price.
    dollars: float
    candidates: Sequence[Candidate]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.offer.to_json(),
            "without": [asdict(memory) for memory in self.without],
            "by_model": [asdict(memory) for memory in self.by_model],
            "dollars": self.dollars,
        }


def available_provider(settings: Settings) -> str:
    """Return the ``extractor`` to use: claude if its command is found, openai for a key or private server, or "".

    Raises:
        SettingsError: ``.env`` can be read by others.
    """
    if find_claude(settings) is not None:
        return "claude"
    return "openai" if settings.llm_base_url or api_key_of(settings) else ""


def answer_of(store: Reader) -> ComparisonAnswer | None:
    """Return what the user answered when a comparison was offered; None if none ever was."""
    stored = get_meta(store, _ANSWER_KEY)
    return None if stored is None else ComparisonAnswer.from_stored(stored)


def note_answer(store: Store, answer: ComparisonAnswer) -> None:
    """Store the answer, so that the user is not asked twice."""
    with store.transaction() as tx:
        put_meta(tx, _ANSWER_KEY, answer.value)


def find_offer(store: Store, settings: Settings) -> Offer | None:
    """Return the most informative session with the price of its call.

    Return None if no session is long enough, or if there is no model.

    This is, among the latest sessions that the local extractor has read, the one with the most content that fits in a
    single request. A session that fits completely is preferred to the first part of a longer one. Sessions in progress,
    and those in excluded folders and paused projects, are skipped.

    Raises:
        SettingsError: the key or a price in the settings can't be read.
    """
    provider = available_provider(settings) if settings.extractor == "local" else ""
    if not provider:
        return None
    for session in _best_first(store, settings):
        part = _one_request(store, settings, session)
        if part is not None:
            return _offer(store, settings, provider, part)
    return None


def compare(store: Store, extractor: ModelExtractor, offer: Offer) -> Comparison:
    """Call the model once. Only the cost of the call, or its failure, is stored.

    Raises:
        BudgetReached: a cap has been reached; nothing was sent.
        ExtractionError: the model could not be called, or its answer can't be read.
    """
    started_ms = store.now_ms()
    part = offer.part
    candidates = extractor.propose_once(part.readable, part.context)
    dollars = sum(row.dollars for row in spending(store, started_ms) if row.model == extractor.model.provider.model)
    return Comparison(
        offer=offer,
        without=tuple(_shown(memory, memory.shown_title) for memory in _kept_locally(store, part.turns)),
        by_model=tuple(
            _shown(candidate, candidate.title or title_from(candidate.summary))
            for candidate in candidates
            if candidate.action not in ("same", "retracts") and not candidate.suspect
        ),
        dollars=dollars,
        candidates=candidates,
    )


def keep(store: Store, settings: Settings, extractor: ModelExtractor, comparison: Comparison) -> DistilledPart:
    """Replace the local memories with those that ``compare`` showed, in a run that can be undone.

    Raises:
        Conflict: the session has changed in the meantime; nothing was written, and the second chance will distill it.
        StoreError: the database cannot be written.
    """
    return SecondChance(store, settings, extractor).write(comparison.offer.part, comparison.candidates)


def estimate_call(settings: Settings, provider: str, text: str) -> CallPrice:
    """Estimate the size and cost of a call with ``text``, the whole request.

    Raises:
        SettingsError: an entry of ``llm_prices`` can't be read.
    """
    memories = min(max(MAX_MEMORIES, len(text) // CHARACTERS_PER_MEMORY), MAX_MEMORIES_LONG)
    added = CLAUDE_CODE_TOKENS if provider == "claude" else 0
    tokens = len(text) // CHARACTERS_PER_TOKEN + added
    usual, longest = USUAL_MEMORIES * TOKENS_PER_MEMORY, memories * TOKENS_PER_MEMORY
    prices: tuple[Price, Price] | None = None
    if provider == "claude":
        reserved = settings.llm_dollars_per_call
        if "haiku" in settings.claude_model:
            prices = HAIKU_LOW, HAIKU_HIGH
    else:
        price = price_of(settings)
        reserved = price.dollars(len(text.encode()) + OVERHEAD_TOKENS, MAX_ANSWER_TOKENS)
        is_named = any(entry.partition("=")[0].strip() == settings.llm_model for entry in settings.llm_prices)
        prices = (price, price) if is_named or is_own_server(settings.llm_base_url) else None
    return CallPrice(
        input_tokens=tokens,
        output_tokens=usual,
        max_output_tokens=longest,
        low_dollars=prices[0].dollars(tokens, usual) if prices else None,
        high_dollars=prices[1].dollars(tokens, longest) if prices else None,
        reserved_dollars=reserved,
    )


def _best_first(store: Store, settings: Settings) -> list[SessionRow]:
    """Return the sessions that may be shown, most informative first, then latest first."""
    if "" in paused_scopes(store):
        return []
    latest_ms = store.now_ms() - settings.idle_seconds * 1_000
    waiting = sessions_of(store, waiting_sessions(store)).values()
    over = [session for session in waiting if session.last_at_ms <= latest_ms and has_answers(session.agent)]
    sizes: list[tuple[bool, int, int, SessionRow]] = []
    for session in sorted(over, key=lambda session: -session.last_at_ms)[:MAX_LOOKED_AT]:
        there, turns = waiting_turns(store, session)
        project = project_by_id(store, there.project_id) if there.project_id else None
        if project is not None and is_paused(store, project.identity):
            continue
        if any(is_excluded(folder, settings.exclude) for turn in turns for folder in turn.turn.folders):
            continue
        part = turns[:PART_TURNS]
        size = sum(_said_characters(part))
        if sum(turn.turn.is_by_person for turn in part) >= MIN_PROMPTS and size >= MIN_CHARACTERS:
            sizes.append((len(part) == len(turns), size, session.last_at_ms, session))
    return [session for *_, session in sorted(sizes, key=lambda row: row[:3], reverse=True)]


def _said_characters(turns: Iterable[StoredTurn]) -> Iterator[int]:
    return (min(len(said.text), MAX_COUNTED_CHARACTERS) for turn in turns for said in turn.turn.said)


def _one_request(store: Store, settings: Settings, session: SessionRow) -> Part | None:
    """Return the first turns of a session that fit in a single request; None if there are too few."""
    number = PART_TURNS
    while number >= MIN_PROMPTS:
        try:
            part = read_part(store, settings, session, number)
        except Conflict:
            return None
        first, *others = batches(without_own(part.readable)) or [[]]
        if not others:
            prompts = sum(turn.is_by_person for turn in first)
            return part if prompts >= MIN_PROMPTS else None
        beyond = {turn.key for batch in others for turn in batch}
        keys = [turn.turn.key for turn in part.turns]
        number = next(place for place, key in enumerate(keys) if key in beyond)
    return None


def _offer(store: Store, settings: Settings, provider: str, part: Part) -> Offer:
    session = part.session
    project = project_by_id(store, session.project_id) if session.project_id else None
    text, _ = request_text(without_own(part.readable), part.context)
    _, waiting = waiting_turns(store, session)
    return Offer(
        provider=provider,
        model=f"claude:{settings.claude_model}" if provider == "claude" else settings.llm_model,
        title=session_titles(store, [session])[session.session_id],
        project=project.name if project else "",
        day=day_of(session.last_at_ms),
        prompts=sum(turn.is_by_person for turn in part.readable),
        is_whole=len(part.turns) == len(waiting),
        price=estimate_call(settings, provider, SYSTEM_PROMPT + text),
        part=part,
    )


def _kept_locally(store: Reader, turns: Sequence[StoredTurn]) -> list[Memory]:
    """Return the current memories that the local extractor took from these turns, in the order of the turns."""
    kept: dict[int, Memory] = {}
    for turn in turns:
        for memory in memories_of_turns(store, [turn.id]):
            evidence = evidence_of(store, memory.id)
            if memory.is_by_rules and memory.is_current and not memory.suspect and evidence[0].turn_id == turn.id:
                kept.setdefault(memory.id, memory)
    return list(kept.values())


def _shown(memory: Memory | Candidate, title: str) -> ShownMemory:
    return ShownMemory(memory.kind, title, memory.summary)
