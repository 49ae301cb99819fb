"""Choose the hits that answer a question within a word budget: memories, sessions, commits of a day, passages.

``engram.search.hit_lines`` prints them; commands, tools and benchmarks use both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from engram.models.engine.transaction import Reader
from engram.models.sessions.passage_rows import barred_quotations
from engram.search.day_commits import day_logs, of_named_time
from engram.search.hit_lines import (
    DOUBTFUL,
    HEADING,
    RETIRED,
    UNSURE,
    VERBATIM,
    answer_head,
    count_words,
    is_verbatim,
    may_be_planted,
    session_line,
    text_of,
)
from engram.search.hits import MAX_HITS, Hit, Part, PublicHit, Standing, is_said, stems_said, without_said
from engram.search.named_times import parse_date_range, relative_time
from engram.search.passages.answering import WORTH, answered, with_introduced, worth_of
from engram.search.passages.followed import MAX_FOLLOWED_CHARACTERS, ends_of_turns, session_summaries, what_followed
from engram.search.passages.passage_search import excerpt
from engram.search.passages.wanted import Wanted, without_introduction
from engram.search.question import Coverage, Query, coverage_of_words
from engram.search.quoted_phrases import find_phrases, only_name, phrases_of
from engram.search.searcher import Searcher, public_hits
from engram.system.lazy_regex import lazy_regex
from engram.text.markdown import without_bullet
from engram.text.splitting import sentence_texts
from engram.text.titles import LABEL
from engram.text.words import terms_of
from engram.transcripts.turns import Role
from engram.trust.display import one_line

#: Maximum number of words in an answer, including heading, ids, dates and the commands that resume sessions.
MAX_ANSWER_WORDS = 400
#: Number of words for each hit if the question allows so many hits that they don't fit into ``MAX_ANSWER_WORDS``.
WORDS_OF_HIT = 100
#: Maximum number of passages shown, unless the question allows more hits.
MAX_PASSAGES = 15
#: Id prefix of the daily log's chunks.
DAILY_LOG = "daily/"
#: A passage is cut to what remains of the budget; it is left out if it would have fewer words than this.
MIN_PASSAGE_WORDS = 12
#: Maximum number of words in a session's summary.
MAX_SESSION_WORDS = 80
#: Number of the best memories that are shown with their evidence.
MAX_QUOTED = 2
_WORD = lazy_regex(r"\S+")
#: Minimum and maximum number of words in a memory's quote.
MIN_QUOTE_WORDS, MAX_QUOTE_WORDS = 5, 40
#: Number of memories and passages to search for: more than are shown, because a memory ranks higher if its source also
#: answers the question.
MAX_CANDIDATES = 40
#: A memory gains this share of the score of its turn's best passage.
SOURCE_SHARE = 0.4
#: A hit with this share of the question's words, weighted by rarity (unknown ones most), always counts as close.
MIN_SAID_SHARE = 0.6
#: Maximum number of hits shown if none is close to the question.
MAX_DOUBTFUL_HITS = 3

#: Returns the name of the user's file that says the same as a text, and what a file says instead; "" for none.
StandingOf = Callable[[str], tuple[str, str]]

#: Returns turn id → how many of the files that the turn edited have changed since, and how many it edited.
ChangesOf = Callable[[Collection[int]], Mapping[int, tuple[int, int]]]
#: Number of the best passages whose files are checked.
MAX_CHECKED = 5


@dataclass(frozen=True, slots=True)
class Answer:
    memories: tuple[PublicHit, ...] = ()
    #: Summaries of the sessions with the best passages.
    sessions: tuple[PublicHit, ...] = ()
    #: Commits of the days that the question names; then passages of turns and chunks of notes that add to the memories.
    passages: tuple[PublicHit, ...] = ()

    #: Id → closeness to the question (``closeness_of``), by which ``hits`` merges the three lists; 0 for a missing id.
    closeness: Mapping[str, float] = field(default_factory=dict)

    @property
    def hits(self) -> tuple[PublicHit, ...]:
        """All hits, best first; memories, sessions and passages each keep their order.

        Of equally close hits, memories come before sessions, and sessions before passages.
        """
        lists = [list(self.memories), list(self.sessions), list(self.passages)]
        merged: list[PublicHit] = []
        while any(lists):
            best = max((hits for hits in lists if hits), key=lambda hits: self.closeness.get(hits[0].id, 0.0))
            merged.append(best.pop(0))
        return tuple(merged)

    def marked_unsure(self) -> Answer:
        memories, sessions, passages = (
            tuple(replace(hit, is_unsure=True) for hit in hits)
            for hits in (self.memories, self.sessions, self.passages)
        )
        return Answer(memories, sessions, passages, self.closeness)


def answer_question(
    store: Reader,
    searcher: Searcher,
    query: Query,
    *,
    max_words: int = MAX_ANSWER_WORDS,
    with_passages: bool = True,
    standing_of: StandingOf = lambda text: ("", ""),
    changes_of: ChangesOf = lambda turns: {},
) -> Answer:
    """Return the hits that answer a question, chosen so that ``answer_text`` fits the budget.

    If the question names only a time, only hits from that time, or that name it, are returned. If it is only a name in
    code, such as ``useContext``, and any text contains it, only such texts are returned.

    The evidence of memories and the summaries of sessions are included only if ``with_passages`` is set.

    Args:
        query: the question. ``limit`` is the maximum number of memories, ``max_hits`` the maximum number of all hits,
            for which the budget grows;
            if ``max_hits`` is set, memories are chosen before sessions, one place is kept for a passage that is
            closer than every memory, and the best passages show the sentences of their turn that answer.
        with_passages: if False, the answer contains only memories.
        standing_of: returns what the user's files say; a memory that is also in a file is listed without its text.
        changes_of: returns how many of the files that each turn edited have changed since.
    """
    if _counted_hits(query):
        max_words = max(max_words, WORDS_OF_HIT * _counted_hits(query))
    found = _find(store, searcher, query, with_passages=with_passages)
    chosen = _choose(store, query, found, standing_of, changes_of)
    is_unanswered, is_sure = _judge(store, searcher, query, found, chosen)
    if is_unanswered or (is_unanswered is False and all(hit.is_doubtful for hit in chosen.hits)):
        memories, passages = (
            [replace(hit, is_doubtful=is_unanswered) for hit in hits] for hits in (chosen.memories, chosen.passages)
        )
        chosen = replace(chosen, memories=memories, passages=passages)
    answer = _fit(store, query, found, chosen, max_words, with_passages=with_passages, is_sure=is_sure)
    return answer if is_sure else answer.marked_unsure()


def _counted_hits(query: Query) -> int:
    """Return the number of hits that a question asks for; 0 if only words limit its answer."""
    return query.max_hits if query.max_hits and query.max_hits < MAX_HITS else 0


@dataclass(frozen=True, slots=True)
class _Found:
    """What the searches found for a question, best first."""

    memories: Sequence[Hit]
    passages: Sequence[Hit]
    #: Commits of the days that the question names.
    logs: Sequence[PublicHit]
    #: True if the question is only a name in code or a phrase of common words, and these hits contain it.
    is_literal: bool
    asks: Wanted
    #: Id of a passage → what it is worth as an answer.
    worth: Mapping[str, float]


def _find(store: Reader, searcher: Searcher, query: Query, *, with_passages: bool) -> _Found:
    wider = replace(query, limit=max(MAX_CANDIDATES, _counted_hits(query)))
    found = searcher.search(wider) if with_passages else []
    candidates = searcher.recall(wider if found else query)
    is_literal = False
    if (literal := _literal(query.text)) and with_passages:
        # Many texts contain parts of a name in code, or common words; only those that contain the exact name or phrase
        # are about it.
        written_in = [hit for hit in candidates if find_phrases(_whole_memory(hit), literal)]
        exact = searcher.search(replace(wider, phrases=literal))
        if is_literal := bool(exact or written_in):
            found, candidates = exact, written_in
    named = parse_date_range(query.text, query.now_ms or store.now_ms())
    if named is None:
        found = without_daily_log(found)
    logs = day_logs(store, query) if with_passages else []
    found, candidates = of_named_time(found, query.text, named), of_named_time(candidates, query.text, named)
    asks = Wanted.by(query.text, searcher.coverage_of(query.text), barred_quotations(store)[1])
    # If words are limited rather than hits, additional hits help a reader more than longer ones.
    worth: dict[str, float] = {}
    if query.max_hits:
        found, worth = answered(store, found, asks)
    found = [*with_introduced(store, found[:MAX_PASSAGES], asks), *found[MAX_PASSAGES:]]
    return _Found(candidates, found, logs, is_literal, asks, worth)


def _literal(question: str) -> tuple[str, ...]:
    """Return the text to find verbatim: a question's quoted phrases, or the name in code that is all it consists of.

    Return nothing for a question with other informative words.
    """
    name = only_name(question)
    return (name,) if name else () if terms_of(question) else phrases_of(question)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The hits that may be shown."""

    memories: Sequence[PublicHit]
    passages: Sequence[PublicHit]
    #: Id of a hit → row id of its turn.
    turns: Mapping[str, int | None]
    worth: Mapping[str, float]
    closeness: Mapping[str, float]

    @property
    def hits(self) -> tuple[PublicHit, ...]:
        return (*self.memories, *self.passages)


def _choose(store: Reader, query: Query, found: _Found, standing_of: StandingOf, changes_of: ChangesOf) -> _Chosen:
    near = near_as_passages(raise_with_source(found.memories, found.passages), found.passages, found.asks.coverage)
    best = sorted(near, key=lambda hit: hit.is_retired)[: query.limit]
    most = max(MAX_PASSAGES, _counted_hits(query))
    of_both = public_hits(store, [*best, *found.passages[:most]], query.project_id)
    recalled, said = of_both[: len(best)], of_both[len(best) :]
    recalled = [replace(hit, standing=Standing(*standing_of(hit.text))) for hit in recalled]
    turns = {hit.id: hit.turn_id for hit in (*found.memories, *found.passages)}
    changes = changes_of({turn for hit in (*recalled, *said[:MAX_CHECKED]) if (turn := turns[hit.id]) is not None})
    recalled, said = (
        [replace(hit, changed_files=changes.get(turns[hit.id] or 0, (0, 0))) for hit in hits]
        for hits in (recalled, said)
    )
    of_memories = {hit.id: worth_of([Part("", Role.ASSISTANT, hit.text)], found.asks) for hit in recalled}
    worth = {**found.worth, **of_memories}
    closeness = _with_worth(closeness_of([*recalled, *said], turns, found.asks.coverage), worth)
    return _Chosen(recalled, said, turns, worth, closeness)


def _judge(store: Reader, searcher: Searcher, query: Query, found: _Found, chosen: _Chosen) -> tuple[bool | None, bool]:
    """Return True if no hit answers the question, or None if that can't be judged; and whether the verdict is sure."""
    closest = sorted(chosen.hits, key=lambda hit: -chosen.closeness[hit.id])[:MAX_CHECKED]
    cosines, asked_for = [hit.cosine for hit in closest], found.asks.coverage
    is_unknown = searcher.is_name_unknown(query, asked_for, cosines)
    is_unanswered = is_unknown or searcher.is_unanswered(found.passages, cosines)
    since = relative_time(query.text, query.now_ms or store.now_ms())
    first = (*chosen.memories[:1], *chosen.passages[: MAX_DOUBTFUL_HITS - 1])
    if since is not None and not found.logs and all(since.distance_days(hit.created_at_ms) > 1 for hit in first):
        # None of the top hits is from the time that the question names.
        is_unanswered = True
    if not found.passages:
        # Without passages, as in a store with only saved memories, it is unknown how rare the question's words are.
        asked_for = coverage_of_words(query.text)
    texts = [_whole_text(hit) for hit in closest]
    share = max((asked_for.share_of_all(asked_for.stems_in(text)) for text in texts), default=0.0)
    if found.is_literal or share >= MIN_SAID_SHARE:
        return None if is_unanswered is None else False, True
    is_unsure = searcher.is_unsure(found.passages, cosines, share, searcher.unknown_names(query, asked_for, texts))
    return is_unanswered, is_unanswered or bool(found.logs) or not is_unsure


def _fit(
    store: Reader,
    query: Query,
    found: _Found,
    chosen: _Chosen,
    max_words: int,
    *,
    with_passages: bool,
    is_sure: bool,
) -> Answer:
    """Return the chosen hits that fit the budget, with summaries of sessions and the ends of turns."""
    memories, passages = _close_hits(chosen.memories, chosen.passages, chosen.closeness, is_answered=bool(found.logs))
    if query.max_hits and (first := Answer(tuple(memories), (), tuple(passages), chosen.closeness).hits[:1]):
        memories = memories[: query.max_hits - is_verbatim(first[0])]
    is_doubtful = all(hit.is_doubtful for hit in (*memories, *passages, *found.logs))
    is_retired = any(hit.is_retired for hit in memories)
    doubt = DOUBTFUL if is_doubtful else "" if is_sure else UNSURE
    budget = _Budget(max_words, query.max_hits, doubt=doubt, is_retired=is_retired)
    logs = [log for log in found.logs if budget.take(log)]
    summaries: Sequence[PublicHit] = ()
    if with_passages and not is_doubtful:
        summaries = session_summaries(store, query, passages)
    wanted = coverage_of_words(query.text)
    sessions = [] if query.max_hits else list(_fitting_sessions(summaries, wanted, budget))
    quoted = MAX_QUOTED if with_passages else 0
    shown = list(_fitting_memories(memories, wanted, quoted, budget))
    sessions = sessions or list(_fitting_sessions(summaries, wanted, budget))
    outcomes = ends_of_turns(store, found.passages, wanted, {name for name, gain in chosen.worth.items() if gain})
    ended = [replace(hit, outcome=outcomes.get(hit.id, "")) for hit in passages]
    by_id = {hit.id: hit for hit in found.passages}
    fitting = list(
        _fitting_passages(ended, shown, wanted, budget, lambda hit: _followed(store, by_id[hit.id], hit.text))
    )
    all_shown = [*shown, *sessions, *logs, *passages]
    closeness = _with_worth(closeness_of(all_shown, chosen.turns, found.asks.coverage), chosen.worth)
    return Answer(tuple(shown), tuple(sessions), (*logs, *fitting), closeness)


def _with_worth(closeness: Mapping[str, float], worth: Mapping[str, float]) -> dict[str, float]:
    """Return the closeness of each hit, increased by how well it answers in the form that the question asks for."""
    return {name: close + WORTH * worth.get(name, 0.0) if close else close for name, close in closeness.items()}


def without_daily_log(found: Sequence[Hit]) -> list[Hit]:
    """Return the hits that are not from the daily log, or all of them if there are no others.

    The daily log lists prompts, which contain the words of a question but not its answer; passages contain both.
    """
    return [hit for hit in found if not hit.id.startswith(DAILY_LOG)] or list(found)


#: Minimum closeness of a memory extracted by rules, as a share of the best passage's. In a small store, some memories
#: are always nearest; without this limit, unrelated ones took up half of an answer's words.
MIN_SHARE_OF_PASSAGE = 0.7


def near_as_passages(memories: Iterable[Hit], passages: Sequence[Hit], wanted: Coverage) -> Iterator[Hit]:
    """Yield the memories, except those that were extracted by rules and are much less close than the best passage."""
    memories, passages = list(memories), passages[:MAX_PASSAGES]
    cosine_of = _cosines_of([*memories, *passages])
    closest = max((_said_of(wanted, hit.text, cosine_of(hit)) for hit in passages), default=0.0)
    for hit in memories:
        is_picked = hit.memory is not None and hit.memory.is_by_rules
        if not is_picked or _said_of(wanted, hit.text, cosine_of(hit)) >= MIN_SHARE_OF_PASSAGE * closest:
            yield hit


def _cosines_of(hits: Iterable[Hit | PublicHit]) -> Callable[[Hit | PublicHit], float]:
    """Return a function that returns the cosine to use when comparing one of these hits with the others.

    While any of the hits has no vector yet, this is 0 for all of them: a hit must not come first merely because it has
    a vector.
    """
    is_complete = all(hit.cosine is not None for hit in hits)
    return lambda hit: (hit.cosine or 0.0) if is_complete else 0.0


def _whole_text(hit: PublicHit) -> str:
    return f"{hit.title}\n{hit.text}\n{hit.quote}"


def _whole_memory(hit: Hit) -> str:
    memory = hit.memory
    return hit.text if memory is None else "\n".join((memory.title, hit.text, memory.content, *memory.facts))


def _said_of(wanted: Coverage, text: str, cosine: float) -> float:
    """Return the share of a question's words that a text contains, weighted by rarity, plus the text's cosine."""
    return wanted.share(wanted.stems_in(text)) + cosine


#: Added to the closeness of memories and session summaries, so that a slightly closer passage does not precede them.
MEMORY_LEAD = 0.15
#: A memory counts as a summary of its turn's best passage if its closeness is at least this share of the passage's.
MIN_OWN_SHARE = 0.5


def closeness_of(hits: Sequence[PublicHit], turns: Mapping[str, int | None], wanted: Coverage) -> dict[str, float]:
    """Return id → closeness to the question: the share of its words, weighted by rarity, plus the cosine.

    A memory that is close enough itself is as close as the best passage of its turn. Commits of a day that the question
    names are always closest, and retired memories are least close.

    Args:
        turns: id of a memory or passage → row id of its turn.
    """
    closeness: dict[str, float] = {}
    of_turn: dict[int, float] = {}
    # Commits and sessions never have a vector.
    cosine_of = _cosines_of(hit for hit in hits if hit.id in turns)
    for hit in sorted(hits, key=is_verbatim, reverse=True):
        said = _said_of(wanted, _whole_text(hit), cosine_of(hit))
        turn = turns.get(hit.id)
        if hit.id.startswith(DAILY_LOG):
            closeness[hit.id] = said / 2
        elif is_verbatim(hit):
            closeness[hit.id] = math.inf if hit.kind == "commits" else said
            of_turn[turn or 0] = max(said, of_turn.get(turn or 0, 0.0)) if turn else 0.0
        else:
            summed_up = of_turn.get(turn or 0, 0.0)
            closeness[hit.id] = (max(said, summed_up) if said >= MIN_OWN_SHARE * summed_up else said) + MEMORY_LEAD
    return closeness | {hit.id: 0.0 for hit in hits if hit.is_retired}


def public_passages(store: Reader, hits: Sequence[Hit], asked_in: int | None = None) -> list[PublicHit]:
    """Return passages in their public form, each with any later contradiction from its session.

    ``asked_in`` has the same meaning as in ``public_hits``.
    """
    followed = [_followed(store, hit, hit.text) for hit in hits]
    shown = public_hits(store, hits, asked_in)
    return [replace(hit, followed=text) for hit, text in zip(shown, followed, strict=True)]


def _followed(store: Reader, hit: Hit, shown: str) -> str:
    """Return who contradicted or superseded what is shown of a passage, and in what words; "" if nobody did."""
    # A passage of several speakers includes the user, who can take back their own words.
    later = what_followed(store, hit.row_id, shown, hit.role or Role.USER) if hit.turn_id is not None else None
    if later is None:
        return ""
    who = "the user" if later.role == Role.USER else "the assistant"
    shown = one_line(without_bullet(later.text), MAX_FOLLOWED_CHARACTERS)
    return f"{who}: “{shown}”" if not may_be_planted(later.text) else f"{who} contradicted it"


def raise_with_source(memories: Sequence[Hit], passages: Sequence[Hit]) -> list[Hit]:
    """Return memories, best first, after raising the score of those that come from the same turn as a passage found.

    A memory that is no longer current, was judged wrong, or was learned on another branch is not raised.
    """
    of_turn: dict[int, float] = {}
    for passage in passages:
        if passage.turn_id is not None:
            of_turn[passage.turn_id] = max(passage.score, of_turn.get(passage.turn_id, 0.0))
    return sorted((_raised(memory, of_turn) for memory in memories), key=lambda memory: -memory.score)


def _raised(memory: Hit, of_turn: Mapping[int, float]) -> Hit:
    gain = SOURCE_SHARE * of_turn.get(memory.turn_id or 0, 0.0)
    if memory.is_retired or memory.branch or gain <= 0:
        return memory
    return replace(memory, score=memory.score + gain, parts={**memory.parts, "source": gain})


def _close_hits(
    memories: Sequence[PublicHit], passages: Sequence[PublicHit], closeness: Mapping[str, float], *, is_answered: bool
) -> tuple[Sequence[PublicHit], Sequence[PublicHit]]:
    """Return the hits that are close to the question; if nothing answers it, a few of the closest ones."""
    close = [hit for hit in memories if not hit.is_doubtful], [hit for hit in passages if not hit.is_doubtful]
    if any(close) or is_answered:
        return close
    ranked = sorted((*memories, *passages), key=lambda hit: -closeness[hit.id])
    closest = {hit.id for hit in ranked[:MAX_DOUBTFUL_HITS]}
    return [hit for hit in memories if hit.id in closest], [hit for hit in passages if hit.id in closest]


def _fitting_sessions(summaries: Iterable[PublicHit], wanted: Coverage, budget: _Budget) -> Iterator[PublicHit]:
    for summary in summaries:
        shortened = _cut_hit(summary, wanted, MAX_SESSION_WORDS)
        if budget.take(shortened):
            yield shortened


def _fitting_memories(
    memories: Sequence[PublicHit], wanted: Coverage, max_quoted: int, budget: _Budget
) -> Iterator[PublicHit]:
    """Yield the memories that fit the budget, the first ``max_quoted`` of them with their evidence."""
    said: list[frozenset[str]] = []
    for place, memory in enumerate(memories):
        quoted = _quoted(memory, said, wanted) if place < max_quoted else memory
        shown = next((hit for hit in (quoted, memory) if budget.take(hit)), None)
        if shown is not None:
            said.append(stems_said(shown))
            yield shown


def _quoted(memory: PublicHit, said: Sequence[frozenset[str]], wanted: Coverage) -> PublicHit:
    """Return a memory with the best sentences of its content that were not shown before."""
    if memory.memory is None or memory.standing.stands_in:
        return memory
    content = LABEL.sub("", memory.memory.content)
    known = [*said, stems_said(memory)]
    spans = sentence_texts(content)
    unsaid = "\n".join(sentence for sentence in spans if not is_said(sentence, known))
    words = _cut(excerpt(unsaid, wanted, MAX_QUOTE_WORDS), MAX_QUOTE_WORDS).split()
    return replace(memory, quote=" ".join(words)) if len(words) >= MIN_QUOTE_WORDS else memory


def _fitting_passages(
    passages: Iterable[PublicHit],
    memories: Sequence[PublicHit],
    wanted: Coverage,
    budget: _Budget,
    followed_of: Callable[[PublicHit], str],
) -> Iterator[PublicHit]:
    """Yield the passages that fit the budget, each with any later contradiction from its session."""
    said = [stems_said(memory) for memory in memories]
    for passage in passages:
        if budget.is_spent:
            break
        room = budget.left - budget.overhead(passage)
        text = passage.part(without_said(passage.text, said)) if room >= MIN_PASSAGE_WORDS else ""
        if not text:
            continue
        alone = replace(_cut_hit(replace(passage, text=text), wanted, room), outcome="")
        alone = replace(alone, followed=followed_of(alone))
        is_known = not passage.outcome or is_said(passage.outcome, said)
        ended = alone if is_known else replace(alone, outcome=passage.outcome)
        shown = next((hit for hit in (ended, alone) if budget.take(hit)), None)
        if shown is not None:
            said.append(stems_said(shown))
            yield shown


def _cut_hit(hit: PublicHit, wanted: Coverage, max_words: int) -> PublicHit:
    """Return a hit with the sentences that best answer the question; a single sentence that is too long is cut."""
    text = excerpt(hit.text, wanted, max_words)
    if text != hit.text:
        text = without_introduction(text) or text  # what it introduces is cut off
    return replace(hit, text=_cut(hit.part(text), max_words))


def _cut(text: str, max_words: int) -> str:
    """Return text cut to ``max_words`` words; line breaks are kept."""
    words = list(islice(_WORD.finditer(text), max_words + 1))
    return text if len(words) <= max_words else f"{text[: words[max_words - 2].end()]} …"


class _Budget:
    """Counts the words in an answer's lines and, if their number is limited, its hits."""

    def __init__(self, max_words: int, max_hits: int | None, *, doubt: str, is_retired: bool) -> None:
        self._hits_left = MAX_HITS if max_hits is None else max_hits
        headings = (HEADING, doubt, VERBATIM, RETIRED if is_retired else "")
        self.left = max_words - count_words(*headings)
        self._sessions: set[str] = {""}

    def take(self, hit: PublicHit) -> bool:
        """Deduct a hit and its words; return False if not enough is left."""
        words = self.overhead(hit) + (0 if hit.standing.stands_in else count_words(text_of(hit)))
        if words > self.left or not self._hits_left:
            return False
        self.left -= words
        self._hits_left -= 1
        self._sessions.add(session_line(hit, ""))
        return True

    @property
    def is_spent(self) -> bool:
        """True if there is no room for another passage, however short its line."""
        return self.left < MIN_PASSAGE_WORDS or not self._hits_left

    def overhead(self, hit: PublicHit) -> int:
        """Return the number of words in a hit's line apart from its text, plus the line about its session if it is the
        first from it.
        """
        line = session_line(hit, "s0")
        return count_words(
            answer_head(hit, "s0" if line else ""), "" if session_line(hit, "") in self._sessions else line
        )
