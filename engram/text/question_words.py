"""What a question is made of: telling terms, names, and the words that say nothing."""

from __future__ import annotations

import re

_STOP_TEXT = """
    a about after again all also am an and any are aren as at be because been before being between both but by can
    cannot could couldn d did didn do does doesn doing don down during each ever few for from further had has hasn have
    haven having he her here hers him his how i if in into is isn it its itself just let ll m may me might more most
    must my myself no nor not now of off on once only or other our ours out over own re s same shall she should
    shouldn so some such t than that the their theirs them then there these they this those through to too under until
    up us ve very was wasn we were weren what when where which while who whom whose why will with won would wouldn yes
    you your yours yourself please thing things something anything someone anyone get got gets
"""
#: Words that tell nothing about what is searched for.
STOP_WORDS = frozenset(_STOP_TEXT.split())

_WORD = re.compile(r"[^\W_][\w]*(?:['’][a-z]+)?|_\w+", re.UNICODE)
#: Parts that make a word a name: a path, a dotted or under_scored or camelCase word, a number with letters, a flag.
_NAME = re.compile(
    r"(?:[\w.-]*[/\\])+[\w.-]+|--?[a-z][\w-]+|\b\w+(?:\.\w+)+\b|\b\w*_\w+\b|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z0-9]+[A-Z]\w*\b"
    r"|\b[A-Z]{2,}[A-Z0-9-]*\b|#\d+|`[^`\n]{2,60}`"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, in order."""
    return [word.lower().split("'")[0].split("’")[0] for word in _WORD.findall(text)]


def terms_of(text: str) -> list[str]:
    """The telling words of a text, each once, in order; parts of compound names as well."""
    found: dict[str, None] = {}
    for word in _WORD.findall(text):
        plain = word.lower().split("'")[0].split("’")[0]
        if plain not in STOP_WORDS and (len(plain) > 1 or plain.isdigit()):
            found.setdefault(plain)
        parts = [part for part in _CAMEL.sub("_", word).lower().split("_") if part]
        if len(parts) > 1:
            for part in parts:
                if len(part) > 2 and part not in STOP_WORDS:
                    found.setdefault(part)
    return list(found)


def names_of(text: str) -> list[str]:
    """File paths, symbols, flags, numbers of issues and quoted code in a text, in lower case, each once."""
    return list(dict.fromkeys(name.strip("`").lower() for name in _NAME.findall(text)))


_DAYS = frozenset(
    "january february march april may june july august september october november december monday tuesday wednesday"
    " thursday friday saturday sunday".split()
)
#: So large a share of an English question's words are stop words; in other languages a capital says nothing.
_ENGLISH_SHARE = 0.25


def proper_names_of(text: str) -> list[str]:
    """Words of an English text that are written like a name inside a sentence (Kubernetes, GitLab), in lower case."""
    found: dict[str, None] = {}
    words = list(_WORD.finditer(text))
    plain = [match[0].lower().split("'")[0].split("’")[0] for match in words]
    if sum(word in STOP_WORDS for word in plain) < _ENGLISH_SHARE * len(words):
        return []
    for match, word in zip(words, plain, strict=True):
        before = text[: match.start()].rstrip()
        is_inside = bool(before) and before[-1] not in ".?!:\n"
        is_capital = match[0][0].isupper() and is_inside
        is_name = is_capital or any(letter.isupper() for letter in match[0][1:])
        if is_name and len(word) > 1 and word not in STOP_WORDS and word not in _DAYS:
            found.setdefault(word)
    return list(found)
