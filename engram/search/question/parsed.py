"""A question parsed once, for every stage of the search."""

from __future__ import annotations

from dataclasses import dataclass

from engram.search.question.dates import DateRange, parse_date_range
from engram.search.question.intent import QueryIntent, parse_intent
from engram.search.question.query import Query
from engram.text.question_words import names_of, proper_names_of, terms_of, words_of


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What the ranking knows of a question."""

    text: str
    #: Words that are no stop words, each once.
    terms: tuple[str, ...]
    #: Paths, symbols, flags and quoted code, in lower case.
    names: tuple[str, ...]
    #: The time that the question names; None if it names none.
    date_range: DateRange | None
    now_ms: int
    intent: QueryIntent
    #: Every word, in lower case.
    words: frozenset[str] = frozenset()
    session_id: str = ""
    #: Words written like the name of a person, a product or a place, in lower case.
    proper_names: tuple[str, ...] = ()


def parse_query(query: Query, now_ms: int) -> ParsedQuery:
    """Parse a question. The words of its files, command and error count as its own."""
    context = " ".join([*query.files, query.command, query.error]).strip()
    text = f"{query.text}\n{context}" if context else query.text
    return ParsedQuery(
        text=query.text,
        terms=tuple(terms_of(text)),
        names=tuple(names_of(text)),
        date_range=parse_date_range(query.text, now_ms),
        now_ms=now_ms,
        intent=parse_intent(query.text),
        words=frozenset(words_of(text)),
        session_id=query.session_id,
        proper_names=tuple(proper_names_of(query.text)),
    )
