"""Terms, names and stop words of a question, for search. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engram.text.unspaced import UNSPACED_LETTERS, split_unspaced

#: Maximum length of a question, in characters; the rest is cut off.
MAX_QUERY_CHARS = 4_000
_STOP_TEXT = """
    a about after again all also am an and any are aren as at be because been before being between both but by can
    cannot could couldn d did didn do does doesn doing don down during each ever few for from further had has hasn have
    haven having he her here hers him his how i if in into is isn it its itself just let ll m may me might more most
    must my myself no nor not now of off on once only or other our ours out over own re s same shall she should
    shouldn so some such t than that the their theirs them then there these they this those through to too under until
    up us ve very was wasn we were weren what when where which while who whom whose why will with won would wouldn yes
    you your yours yourself please tell thing things something anything someone anyone get got gets
"""
#: Words that are not searched for.
STOP_WORDS = frozenset(_STOP_TEXT.split())

#: Maximum number of pairs of letters that a question is searched by, where its script does not separate words.
MAX_PAIRS = 120

_WORD = re.compile(rf"(?:[^\W_]|[{UNSPACED_LETTERS}])[\w{UNSPACED_LETTERS}]*(?:['’][a-z]+)?|_\w+", re.UNICODE)
#: A name: a path, a flag, a dotted, under_scored or camelCase word, capitals, an issue number, or quoted code.
_NAME = re.compile(
    r"(?:[\w.-]*[/\\])+[\w.-]+|--?[a-z][\w-]+|\b\w+(?:\.\w+)+\b|\b\w*_\w+\b|\b[a-z]+[A-Z]\w*\b"
    r"|\b[A-Z][a-z0-9]+[A-Z]\w*\b|\b[A-Z]{2,}[A-Z0-9-]*\b|#\d+|`[^`\n]{2,60}`"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without what follows an apostrophe, in order."""
    return [_without_apostrophe(word) for word in _WORD.findall(text)]


def terms_of(text: str) -> list[str]:
    """Return the words of a text that are no stop words, each once, in order; also the parts of compound names.

    A run of letters in a script without spaces counts by its pairs of letters, at most ``MAX_PAIRS`` of them; single
    letters where the text has nothing else.
    """
    terms: dict[str, None] = {}
    pairs: dict[str, None] = {}
    letters: dict[str, None] = {}
    for found in _WORD.findall(text):
        words, runs = split_unspaced(found)
        for run in runs:
            letters.setdefault(run[-1])
            pairs |= dict.fromkeys(run[place : place + 2] for place in range(len(run) - 1))
        _add_terms(terms, words)
    terms |= dict.fromkeys([pair for pair in pairs if any(map(str.isalnum, pair))][:MAX_PAIRS])
    return list(terms or dict.fromkeys(filter(str.isalnum, letters)))


def _add_terms(terms: dict[str, None], words: Sequence[str]) -> None:
    for word in words:
        plain = _without_apostrophe(word)
        if plain not in STOP_WORDS and (len(plain) > 1 or plain.isdigit()):
            terms.setdefault(plain)
        parts = [part for part in _CAMEL.sub("_", word).lower().split("_") if part]
        if len(parts) > 1:
            for part in parts:
                if len(part) > 2 and part not in STOP_WORDS:
                    terms.setdefault(part)


def names_of(text: str) -> list[str]:
    """Return file paths, symbols, flags, issue numbers and quoted code of a text, in lower case, each once."""
    return list(dict.fromkeys(name.strip("`").lower() for name in _NAME.findall(text)))


_DAYS = frozenset(
    "january february march april may june july august september october november december monday tuesday wednesday"
    " thursday friday saturday sunday".split()
)
#: Minimum share of stop words in an English text; in other languages a capital does not mean a name.
_MIN_ENGLISH_SHARE = 0.25


def proper_names_of(text: str) -> list[str]:
    """Return words of an English text written like a name within a sentence (Kubernetes, GitLab), in lower case."""
    names: dict[str, None] = {}
    words = list(_WORD.finditer(text))
    plain = [_without_apostrophe(match[0]) for match in words]
    if sum(word in STOP_WORDS for word in plain) < _MIN_ENGLISH_SHARE * len(words):
        return []
    for match, word in zip(words, plain, strict=True):
        before = text[: match.start()].rstrip()
        is_inside = bool(before) and before[-1] not in ".?!:\n"
        is_capital = match[0][0].isupper() and is_inside
        is_name = is_capital or any(letter.isupper() for letter in match[0][1:])
        if is_name and len(word) > 1 and word not in STOP_WORDS and word not in _DAYS:
            names.setdefault(word)
    return list(names)


def _without_apostrophe(word: str) -> str:
    return word.lower().split("'")[0].split("’")[0]
