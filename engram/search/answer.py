"""Choose what answers a question within one budget of words: memories, what sessions were about, then passages.

``engram.search.answer_text`` prints it. Commands, tools and benchmarks use both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from engram.models.commits import last_commits_of
from engram.models.pull_requests import pull_requests_of
from engram.models.sessions import agents_of
from engram.models.transaction import Reader
from engram.redaction.display import one_line
from engram.search.answer_text import DOUBTFUL, HEADING, VERBATIM, answer_head, count_words
from engram.search.day_log import day_logs
from engram.search.hit_lines import may_be_planted, text_of
from engram.search.hits import Hit
from engram.search.passages.excerpt import excerpt
from engram.search.passages.followed import MAX_FOLLOWED_CHARACTERS, what_followed
from engram.search.public_hits import Origin, PublicHit, Standing
from engram.search.question.coverage import Coverage
from engram.search.question.query import MAX_HITS, Query
from engram.search.service import Searcher
from engram.search.session_summaries import session_summaries
from engram.text.excerpt_sentences import sentence_spans
from engram.text.question_words import terms_of
from engram.text.recollection_stems import stems
from engram.text.topic_words import topic_words
from engram.transcripts.record import Role
from engram.transcripts.registry import resume_command
from engram.transcripts.source import PullRequest

#: Words of an answer, all in: heading, ids, dates and what resumes the sessions.
MAX_ANSWER_WORDS = 400
#: Passages that may be shown.
MAX_PASSAGES = 15
#: Words of one passage.
MAX_PASSAGE_WORDS = 60
#: A passage is cut to what is left of the budget, but not to fewer words than this.
MIN_PASSAGE_WORDS = 12
#: Words of the summary of a session.
MAX_SESSION_WORDS = 80
#: Memories that are shown with what they rest on: the best ones.
MAX_QUOTED = 2
#: Words of such a quote; fewer say nothing.
MIN_QUOTE_WORDS, MAX_QUOTE_WORDS = 5, 40
#: A sentence is said by a memory if the memory has this share of its telling words.
MIN_SAID_SHARE = 0.75
#: Memories, and passages, that are searched: a memory rises if its source answers too.
MAX_CANDIDATES = 40
#: Share of the score of the best passage of its turn that a memory gains.
SOURCE_SHARE = 0.4
#: Hits that are shown if none of them is close to the question.
MAX_DOUBTFUL_HITS = 3

#: Returns the name of the user's own file that says the same as a text, and what one says instead; "" for none.
StandingOf = Callable[[str], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is shown for a question, best first."""

    memories: tuple[PublicHit, ...] = ()
    #: What the sessions with the best passages were about.
    sessions: tuple[PublicHit, ...] = ()
    #: What was committed on the days that the question names; then passages of turns, and parts of notes, that say
    #: more than the memories.
    passages: tuple[PublicHit, ...] = ()

    @property
    def hits(self) -> tuple[PublicHit, ...]:
        """The memories, then the sessions, then the passages."""
        return self.memories + self.sessions + self.passages


def answer_question(
    store: Reader,
    searcher: Searcher,
    query: Query,
    *,
    max_words: int = MAX_ANSWER_WORDS,
    with_memories: bool = True,
    with_passages: bool = True,
    standing_of: StandingOf = lambda text: ("", ""),
) -> Answer:
    """Return what answers a question, chosen so that ``answer_text`` fits the budget.

    What memories rest on, and what sessions were about, is only told beside memories and passages.

    Args:
        store: the open memory.
        searcher: ranks memories and passages.
        query: the question; its limit is the maximum number of memories, ``max_hits`` that of everything. Then memories
            come before what sessions were about.
        max_words: the budget.
        with_memories: off to answer from passages alone.
        with_passages: off to answer from memories alone.
        standing_of: tells what the user's own files say; a memory that stands there is named without its text.
    """
    found = searcher.search(replace(query, limit=MAX_CANDIDATES)) if with_passages else []
    candidates = searcher.recall(replace(query, limit=MAX_CANDIDATES) if found else query) if with_memories else []
    recalled = public_hits(store, raise_with_source(candidates, found)[: query.limit])
    recalled = [replace(hit, standing=Standing(*standing_of(hit.text))) for hit in recalled]
    logs = day_logs(store, query) if with_passages else []
    said = told_passages(store, found[:MAX_PASSAGES])
    memories, passages = _close_hits(recalled, said, is_answered=bool(logs))
    is_doubtful = all(hit.is_doubtful for hit in (*memories, *passages, *logs))
    budget = _Budget(max_words, query.max_hits, is_doubtful=is_doubtful)
    wanted = _coverage_of(query.text)
    logs = [log for log in logs if budget.take(log)]
    summaries: Sequence[PublicHit] = ()
    if with_memories and with_passages and not is_doubtful:
        summaries = session_summaries(store, query, passages)
    sessions = [] if query.max_hits else list(_fitting_sessions(summaries, wanted, budget))
    quoted = MAX_QUOTED if with_memories and with_passages else 0
    shown = list(_fitting_memories(memories, wanted, quoted, budget))
    sessions = sessions or list(_fitting_sessions(summaries, wanted, budget))
    return Answer(tuple(shown), tuple(sessions), (*logs, *_fitting_passages(passages, shown, wanted, budget)))


def public_hits(store: Reader, hits: Sequence[Hit]) -> list[PublicHit]:
    """Return hits as others see them, each with its origin. Three queries, whatever the number of hits."""
    sessions = {hit.session_id for hit in hits if hit.session_id}
    agents = agents_of(store, sessions)
    links = pull_requests_of(store, sessions)
    commits = last_commits_of(store, {hit.turn_id for hit in hits if hit.turn_id is not None})
    # Claude Code's depends on what its transcript says: each transcript is looked at once.
    command_of = cache(resume_command)
    return [
        PublicHit.of(
            hit,
            Origin(
                resume=_resume_command(hit, agents.get(hit.session_id, ""), command_of),
                commit="" if hit.turn_id is None else commits.get(hit.turn_id, ""),
                pull_request=_pull_request_for(hit.created_at_ms, links.get(hit.session_id, ())),
            ),
        )
        for hit in hits
    ]


def _resume_command(hit: Hit, agent_name: str, command_of: Callable[[str, str, Path], str]) -> str:
    """Return the command that resumes a hit's session; "" if the transcript is gone, since then nothing does."""
    paths = (Path(place.path) for place in hit.evidence if place.path and os.path.exists(place.path))
    path = next(paths, None)
    return command_of(agent_name, hit.session_id, path) if agent_name and path else ""


def _pull_request_for(at_ms: int, links: Sequence[PullRequest]) -> str:
    """Return the first pull request that the session named after a time, else its last one."""
    later = (link.url for link in links if link.at_ms >= at_ms)
    return next(later, links[-1].url if links else "")


def told_passages(store: Reader, hits: Sequence[Hit]) -> list[PublicHit]:
    """Return passages as others see them, each with what its own session said against it later."""
    followed = [_followed(store, hit) for hit in hits]
    shown = public_hits(store, hits)
    return [replace(hit, followed=text) for hit, text in zip(shown, followed, strict=True)]


def _followed(store: Reader, hit: Hit) -> str:
    """Return who said what against a passage later in its session; "" if nobody did, or for a note."""
    later = what_followed(store, hit.row_id, hit.text, hit.role) if hit.turn_id is not None else None
    if later is None:
        return ""
    who = "the user" if later.role == Role.USER else "the assistant"
    shown = one_line(later.text, MAX_FOLLOWED_CHARACTERS)
    return f"{who}: “{shown}”" if not may_be_planted(later.text) else f"{who} contradicted it"


def raise_with_source(memories: Sequence[Hit], passages: Sequence[Hit]) -> list[Hit]:
    """Return memories, best first, after those rose whose turn has a passage that answers.

    One that no longer holds, is marked as bad, or was learned on another branch does not rise.
    """
    of_turn: dict[int, float] = {}
    for passage in passages:
        if passage.turn_id is not None:
            of_turn[passage.turn_id] = max(passage.score, of_turn.get(passage.turn_id, 0.0))
    return sorted((_raised(memory, of_turn) for memory in memories), key=lambda memory: -memory.score)


def _raised(memory: Hit, of_turn: Mapping[int, float]) -> Hit:
    is_good = memory.status.is_current and not memory.branch
    is_good = is_good and not (memory.episode is not None and memory.episode.is_lowered)
    gain = SOURCE_SHARE * of_turn.get(memory.turn_id or 0, 0.0)
    if not is_good or gain <= 0:
        return memory
    return replace(memory, score=memory.score + gain, parts={**memory.parts, "source": gain})


def _close_hits(
    memories: Sequence[PublicHit], passages: Sequence[PublicHit], *, is_answered: bool
) -> tuple[Sequence[PublicHit], Sequence[PublicHit]]:
    """Return the hits that are close to the question; if none is and nothing else answers it, a few of the closest."""
    close = [hit for hit in memories if not hit.is_doubtful], [hit for hit in passages if not hit.is_doubtful]
    if any(close) or is_answered:
        return close
    memories = memories[:MAX_DOUBTFUL_HITS]
    return memories, passages[: MAX_DOUBTFUL_HITS - len(memories)]


def _coverage_of(question: str) -> Coverage:
    terms = terms_of(question)
    return Coverage(terms, dict.fromkeys(terms, 1), 2)


def _fitting_sessions(summaries: Iterable[PublicHit], wanted: Coverage, budget: _Budget) -> Iterator[PublicHit]:
    """Yield what sessions were about, as far as the budget has room."""
    for summary in summaries:
        shortened = _cut_hit(summary, wanted, MAX_SESSION_WORDS)
        if budget.take(shortened):
            yield shortened


def _fitting_memories(
    memories: Sequence[PublicHit], wanted: Coverage, max_quoted: int, budget: _Budget
) -> Iterator[PublicHit]:
    """Yield the memories that the budget has room for, the first of them with what they rest on."""
    said: list[frozenset[str]] = []
    for place, memory in enumerate(memories):
        quoted = _quoted(memory, said, wanted) if place < max_quoted else memory
        shown = next((hit for hit in (quoted, memory) if budget.take(hit)), None)
        if shown is not None:
            said.append(_said(shown))
            yield shown


def _quoted(memory: PublicHit, said: Sequence[frozenset[str]], wanted: Coverage) -> PublicHit:
    """Return a memory with the best sentences of its content, without what was said already."""
    if memory.memory is None or memory.standing.stands_in:
        return memory
    unsaid = _unsaid(memory.memory.content, [*said, _said(memory)])
    words = _shortened(unsaid, wanted, MAX_QUOTE_WORDS).split()
    return replace(memory, quote=" ".join(words)) if len(words) >= MIN_QUOTE_WORDS else memory


def _fitting_passages(
    passages: Iterable[PublicHit], memories: Sequence[PublicHit], wanted: Coverage, budget: _Budget
) -> Iterator[PublicHit]:
    said = [_said(memory) for memory in memories]
    for passage in passages:
        room = min(MAX_PASSAGE_WORDS, budget.room_for(passage))
        text = _unsaid(passage.text, said)
        if not text or room < MIN_PASSAGE_WORDS:
            continue
        shortened = _cut_hit(replace(passage, text=text), wanted, room)
        if budget.take(shortened):
            said.append(_said(shortened))
            yield shortened


def _said(hit: PublicHit) -> frozenset[str]:
    return stems(topic_words(f"{hit.text}\n{hit.quote}"))


def _unsaid(text: str, said: Sequence[frozenset[str]]) -> str:
    """Return a text without the sentences at its beginning and end that were said already; "" if all were."""
    spans = sentence_spans(text)
    while spans and _is_said(text[slice(*spans[0])], said):
        spans.pop(0)
    while spans and _is_said(text[slice(*spans[-1])], said):
        spans.pop()
    return text[spans[0][0] : spans[-1][1]] if spans else ""


def _is_said(sentence: str, said: Sequence[frozenset[str]]) -> bool:
    words = stems(topic_words(sentence))
    return any(len(words & other) >= MIN_SAID_SHARE * len(words) for other in said)


def _cut_hit(hit: PublicHit, wanted: Coverage, max_words: int) -> PublicHit:
    return replace(hit, text=_shortened(hit.text, wanted, max_words))


def _shortened(text: str, wanted: Coverage, max_words: int) -> str:
    """Return the sentences of a text that answer best; a sentence that is longer than the room for it is cut."""
    text = excerpt(text, wanted, max_words)
    words = text.split()
    return text if len(words) <= max_words else " ".join([*words[: max_words - 1], "…"])


class _Budget:
    """Counts the words that the lines of an answer take, and the hits where their number is limited."""

    def __init__(self, max_words: int, max_hits: int | None, *, is_doubtful: bool) -> None:
        self._hits_left = MAX_HITS if max_hits is None else max_hits
        self._left = max_words - count_words(HEADING, DOUBTFUL if is_doubtful else "", VERBATIM)
        self._sessions: set[str] = set()

    def room_for(self, hit: PublicHit) -> int:
        """Return the number of words that are left for the text of a hit."""
        return self._left - self._overhead(hit)

    def take(self, hit: PublicHit) -> bool:
        """Take a hit and its words, if there are enough left."""
        words = self._overhead(hit) + (0 if hit.standing.stands_in else count_words(text_of(hit)))
        if words > self._left or not self._hits_left:
            return False
        self._left -= words
        self._hits_left -= 1
        self._sessions.add(hit.origin.resume)
        return True

    def _overhead(self, hit: PublicHit) -> int:
        """Return the number of words of a hit beside its text; the line about its session counts once."""
        resume = "" if hit.origin.resume in self._sessions else hit.origin.resume
        return count_words(answer_head(hit, "s0"), f"s0: {resume}" if resume else "")
