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
