"""If no memory matches a prompt, quote a dated passage that clearly answers it, in whole sentences.

Quotations must pass the same test as memories, with a higher threshold, and are shown as something that was said, not
as fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from engram.enums import Verdict
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_entries import memories_resting_on_source
from engram.models.projects.projects import NO_PROJECT
from engram.models.sessions.passage_rows import Quotation, find_quotation, quotation_prefix
from engram.models.sessions.prompt_outcomes import MIN_FLOOR_SHARE
from engram.models.sessions.sessions import copied_history
from engram.recollection.choose_bites import (
    FeatureContext,
    InjectionRequest,
    RatedHit,
    ToolCall,
    least_meaning,
    rate_for_tool_call,
    rate_hit,
    rate_hits,
)
from engram.search.hits import Hit
from engram.search.passages.followed import what_followed
from engram.search.question import Query
from engram.search.support import Floor, Support
from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import is_of_the_moment, sentences, stands_alone
from engram.text.words import stems, topic_words
from engram.transcripts.turns import Role
from engram.trust.suspicion import why_suspect
from engram.trust.voice import typed_text, unmarked

if TYPE_CHECKING:
    from engram.search.searcher import Searcher

# -- Run the search for a request, and rate the memories that it finds.

#: Number of memories to choose bites from.
CANDIDATES = 20


def rate_for_prompt(searcher: Searcher, request: InjectionRequest) -> list[RatedHit]:
    """Decide for every memory found whether it becomes a bite for a prompt; usually none does.

    Nothing is stored, so repeating a request yields the same bites.
    """
    query = query_for(request)
    hits = searcher.recall(query)
    return rate_hits(hits, request, searcher.support(query, hits) if hits else None)


def rate_for_call(searcher: Searcher, request: InjectionRequest, call: ToolCall) -> list[RatedHit]:
    """Decide for every memory found whether it becomes the bite for a tool call; usually none does."""
    return rate_for_tool_call(searcher.recall(query_for(request, call=call)), request, call)


def query_for(request: InjectionRequest, call: ToolCall | None = None) -> Query:
    """Return the query for a request, which covers the session's project and global memories, even weak matches."""
    return Query(
        text=request.text,
        project_id=NO_PROJECT if request.project_id is None else request.project_id,
        limit=CANDIDATES,
        now_ms=request.now_ms or None,
        branch=request.branch,
        files=call.files if call else (),
        command=call.command if call else "",
        error=call.error if call else "",
        thorough=True,
    )


#: Minimum relevance of a quotation, from 0 to 1; higher than for a memory, because nobody chose to keep a passage.
FLOOR = 0.7
#: Minimum relevance for a passage to be recorded as considered.
NEAR = FLOOR * MIN_FLOOR_SHARE
#: Maximum number of passages to search for words to quote, most relevant first.
MAX_READ = 4
#: Maximum length of a quotation, and of the question that it answers, in characters.
MAX_QUOTED_CHARACTERS, MAX_ASKED_CHARACTERS = 300, 110
#: Share of the prompt's informative words that a quotation must contain, and the lower and upper bound of the number
#: that results.
MIN_SHARED_SHARE, MIN_SHARED_WORDS, MAX_SHARED_WORDS = 0.25, 2, 4
#: A user's statement has at least this many words; anything shorter is taken for a request or an answer.
MIN_USERS_WORDS = 8
#: Roles to quote; programs, pasted text, and proposals that nobody agreed to are never quoted.
QUOTED_ROLES = (Role.USER, Role.ASSISTANT, Role.CHOSEN)
#: Web addresses, which don't reveal what a prompt is about.
_ADDRESS = lazy_regex(r"\b(?:https?|ssh|git)://\S+|\bwww\.\S+")
#: Verbs that mark a user's sentence as a statement.
_STATES = lazy_regex(
    r"\b(?:is|are|was|were|has|have|had|does|do not|don['’]t|doesn['’]t|should|must|needs?|can|can['’]t|cannot|will|"
    r"won['’]t|because|since|means|fails?|runs?|uses?|lives?|works?|happens?|returns?|requires?|prefer|want)\b",
    re.IGNORECASE,
)
#: Beginnings of requests, plans and answers.
_BEGINS = lazy_regex(
    r"^\W*(?:please|can you|could you|let['’]?s|go|now|ok(?:ay)?|also|then|add|apply|ask|build|change|check|"
    r"calculate|clean|commit|continue|create|debug|delete|do|execute|explain|extract|find|fix|follow|generate|give|help|implement|"
    r"improve|include|investigate|keep|look|make|merge|move|open|plan|pull|push|put|read|refactor|remove|rename|replace|"
    r"research|revert|review|run|search|see|show|simplify|skip|split|start|stop|take|tell|test|try|update|use|verify|work|write)\b|"
    r"^\W*(?:got it|understood|agreed|either way|in any case|that said|you['’]re|good point|fair|nice|"
    r"interesting|press)\b",
    re.IGNORECASE,
)
#: Phrases with which speakers announce what they are about to do.
_INTENDS = lazy_regex(r"\bI(?:['’]ll|['’]m| need| will| am| want| should| can| have to)\b|\blet me\b", re.IGNORECASE)
#: Words that refer to something outside the sentence.
_POINTS = lazy_regex(
    r"\b(?:the (?:last|latest|following|above|below|next|attached|current)|this|above|below|here|these|those)\b",
    re.IGNORECASE,
)
#: Words for work that was under way when it was said.
_UNDERWAY = lazy_regex(
    r"\b(?:(?:sub)?agents?|reviewers?|verifiers?)\b[^.!?]{0,40}\b(?:is|are)\s+(?:(?:now|still|currently|all)\s+){0,2}"
    r"(?:running|working|waiting|underway|at work|done|finished)\b|"
    r"\b(?:is|are)\s+(?:\w+\s+)?running\s+in\s+the\s+background\b",
    re.IGNORECASE,
)
#: Words for what holds whenever such work is under way.
_LASTS = lazy_regex(r"\b(?:always|never|must|whenever|otherwise|by (?:default|design))\b", re.IGNORECASE)
#: Verdicts with which a memory takes precedence over any passage, whether the memory is shown or not.
_SURER = (Verdict.SHOWN, Verdict.ALREADY_SHOWN, Verdict.IN_CONTEXT, Verdict.STANDS_IN_FILE, Verdict.SUSPECT)


def may_quote(rated: Sequence[RatedHit]) -> bool:
    """Return True if none of the memories considered for a prompt takes precedence over a passage."""
    return not any(rated_hit.verdict in _SURER and rated_hit.score >= rated_hit.floor for rated_hit in rated)


def rate_quotations(store: Store, searcher: Searcher, request: InjectionRequest) -> list[RatedHit]:
    """Decide which of the passages found for a prompt is quoted, if any; usually none is.

    Only other sessions of the same project are quoted, without anything that the current session copied from them. The
    places of the passages are numbered after those of the memories.
    """
    if request.project_id is None or not request.text:
        return []
    context = FeatureContext.of(_ADDRESS.sub(" ", request.text), Support())
    # For most prompts no passage comes close enough to be recorded, so the search stops before ranking.
    floor = Floor(least_meaning(context, NEAR), partial(_is_near, context))
    found, support = searcher.quotable(replace(query_for(request), thorough=False), floor)
    context = replace(context, support=support)
    rated = [_rate(hit, place, context) for place, hit in enumerate(found, CANDIDATES)]
    rated.sort(key=lambda rated_hit: -rated_hit.score)
    return list(_judge(store, rated, request, context))


def _is_near(context: FeatureContext, hit: Hit, support: Support) -> bool:
    score, _ = rate_hit(hit, replace(context, support=support))
    return score >= NEAR


def _rate(hit: Hit, place: int, context: FeatureContext) -> RatedHit:
    score, values = rate_hit(hit, context)
    return RatedHit(hit=hit, place=place, score=score, floor=FLOOR, verdict=Verdict.BELOW_FLOOR, features=values)


def _judge(
    store: Store, rated: Iterable[RatedHit], request: InjectionRequest, context: FeatureContext
) -> Iterator[RatedHit]:
    """Yield the passages with their verdicts; the first one that may be quoted gets SHOWN and is cut to the words to
    quote.
    """
    copied = copied_history(store, request.session_id) if request.session_id else []
    is_found = False
    for number, rated_hit in enumerate(rated):
        if rated_hit.score < rated_hit.floor or number >= MAX_READ:
            yield rated_hit
        elif is_found:
            yield replace(rated_hit, verdict=Verdict.NO_ROOM)
        else:
            judged = _judge_passage(store, rated_hit, request, context, copied)
            is_found = judged.verdict is Verdict.SHOWN
            yield judged


def _judge_passage(
    store: Store, rated: RatedHit, request: InjectionRequest, context: FeatureContext, copied: Sequence[tuple[str, int]]
) -> RatedHit:
    hit = rated.hit
    sources = [(request.session_id, hit.created_at_ms), *copied]
    if any(hit.session_id == session and hit.created_at_ms <= until_ms for session, until_ms in sources):
        return replace(rated, verdict=Verdict.IN_CONTEXT)
    quotation = find_quotation(store, hit.id)
    if quotation is None or quotation.stored.project_id != request.project_id:
        return replace(rated, verdict=Verdict.OTHER_PROJECT)
    prefix = quotation_prefix(quotation.source)
    if any(shown.startswith(prefix) for shown in request.shown):
        return replace(rated, verdict=Verdict.ALREADY_SHOWN)
    words = words_to_quote(quotation, stems(topic_words(_ADDRESS.sub(" ", request.text))))
    if not words:
        return replace(rated, verdict=Verdict.NOT_QUOTABLE)
    # The quoted words themselves must be relevant, not just their surroundings.
    shown = _rate(replace(hit, text=words, asked=question_of(quotation, words)), rated.place, context)
    if shown.score < shown.floor:
        return shown
    if any(_is_suspect(text) for text in (words, quotation.text)):
        return replace(shown, verdict=Verdict.SUSPECT)
    resting = memories_resting_on_source(store, quotation.source)
    is_over = any(memory.is_lowered or memory.superseded_by or memory.suspect for memory in resting)
    if is_over or what_followed(store, quotation.row_id, words, quotation.role) is not None:
        return replace(shown, verdict=Verdict.NOT_CURRENT)
    return replace(shown, verdict=Verdict.STANDS_IN_FILE if request.file_saying(words) else Verdict.SHOWN)


def _is_suspect(text: str) -> bool:
    """Return True for words that read like an instruction, because even a trusted speaker may repeat planted text."""
    return why_suspect(text, is_typed=False) is not None


def question_of(quotation: Quotation, words: str) -> str:
    """Return the first sentence of the prompt that a quotation answers; "" if it shares no word with the quotation.

    A sentence that is too long, was not typed, or reads like an instruction is also left out.
    """
    typed = unmarked(typed_text(quotation.asked)).strip()
    asked = next(iter(sentences(typed.splitlines()[0])), "") if typed else ""
    is_about = bool(stems(topic_words(asked)) & stems(topic_words(words)))
    is_short = len(asked) <= MAX_ASKED_CHARACTERS and asked[:1].isalnum()
    return asked if is_about and is_short and not _is_suspect(asked) else ""


def words_to_quote(quotation: Quotation, wanted: frozenset[str]) -> str:
    """Return the run of whole sentences that contains the most wanted words; "" if no run is clear on its own."""
    if quotation.role not in QUOTED_ROLES:
        return ""
    text = typed_text(quotation.text) if quotation.role is Role.USER else quotation.text
    is_users = quotation.role is Role.USER
    least = min(max(ceil(MIN_SHARED_SHARE * len(wanted)), MIN_SHARED_WORDS), MAX_SHARED_WORDS)
    best, best_shared = "", least - 1
    for paragraph in _paragraphs(text):
        said = sentences(paragraph)
        for first in range(len(said)):
            run = _run_from(said, first)
            if is_users and not _is_statement(run):
                continue
            shared = len(stems(topic_words(run)) & wanted) if run else 0
            if shared > best_shared:
                best, best_shared = run, shared
    return best


def _is_statement(text: str) -> bool:
    """Return True if the user's words state something.

    They must be numerous enough, include a verb that states something, and not refer to anything outside them ("this",
    "below").
    """
    is_long = len(text.split()) >= MIN_USERS_WORDS
    return is_long and bool(_STATES.search(text)) and not _POINTS.search(text)


def _run_from(said: Sequence[str], first: int) -> str:
    """Return a run of whole sentences within the length limit; "" unless the first sentence is clear on its own."""
    run = ""
    for number, sentence in enumerate(said[first:]):
        longer = f"{run} {sentence}".strip()
        is_whole = sentence.endswith((".", "!", "。", ".)", ".”", '."')) and not sentence.endswith("...")
        if (
            len(longer) > MAX_QUOTED_CHARACTERS
            or not is_whole
            or is_of_the_moment(sentence)
            or _INTENDS.search(sentence)
            or (_UNDERWAY.search(sentence) and not _LASTS.search(sentence))
        ):
            break
        if number == 0 and (not stands_alone(sentence) or _BEGINS.match(sentence)):
            break
        run = longer
    return run


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the lines of prose in a message, leaving out code, tables, headings, quotes and commands."""
    is_code = False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")):
            is_code = not is_code
        elif stripped and not is_code and not line.startswith(("    ", "\t")) and stripped[0] not in "|#>$<":
            yield stripped.lstrip("-*•0123456789.) ").replace("**", "")
