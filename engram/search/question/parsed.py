"""A question taken apart once, for all steps."""

from __future__ import annotations

from dataclasses import dataclass

from engram.search.question.dates import Span, span_of
from engram.search.question.intent import AskedForm, asked_form_of
from engram.search.question.query import Query
from engram.text.question_words import names_of, proper_names_of, terms_of, words_of


@dataclass(frozen=True, slots=True)
class Asked:
    """What the steps know of a question."""

    text: str
    #: Telling words, each once.
    terms: tuple[str, ...]
    #: Paths, symbols, flags and quoted code, in lower case.
    names: tuple[str, ...]
    #: The time the question names; None where it names none.
    span: Span | None
    now_ms: int
    #: What it wants, by its words.
    form: AskedForm
    #: All its words, in lower case.
    words: frozenset[str] = frozenset()
    session_id: str = ""
    #: Words written like the name of a person, a product or a place, in lower case.
    proper: tuple[str, ...] = ()


def take_apart(query: Query, now_ms: int) -> Asked:
    """Take a question apart. The words of files, command and error count as the question's own."""
    more = " ".join([*query.files, query.command, query.error]).strip()
    text = f"{query.text}\n{more}" if more else query.text
    return Asked(
        query.text, tuple(terms_of(text)), tuple(names_of(text)), span_of(query.text, now_ms), now_ms,
        asked_form_of(query.text), frozenset(words_of(text)), query.session_id, tuple(proper_names_of(query.text)),
    )  # fmt: skip
