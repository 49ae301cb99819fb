"""Texts that repeat what the rules of redaction look for: made from the rules' own patterns, so that none is left out.

`units()` gives short texts: what each pattern matches, halves of it (openings without ends), each name of a secret with
each sign behind it, brackets, quotes and placeholders. It is read by the tests and by `benchmarks/redaction.py`.
"""

from __future__ import annotations

import importlib
import random
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import string
from collections.abc import Iterator
from typing import Any, cast

from engram.system.lazy_regex import LazyRegex

#: The modules whose patterns `redact` applies.
MODULES = (
    "engram.redaction.assignments",
    "engram.redaction.command_lines",
    "engram.redaction.composed",
    "engram.redaction.config_lines",
    "engram.redaction.fixed_forms",
    "engram.redaction.known_values",
    "engram.redaction.listed_secrets",
    "engram.redaction.literals",
    "engram.redaction.opaque_tokens",
    "engram.redaction.phrases",
    "engram.redaction.program_secrets",
    "engram.redaction.public_labels",
    "engram.redaction.redactor",
    "engram.redaction.values",
)
#: What joins a name to a value, and values that nearly count.
_BEHIND = (
    "=",
    " ",
    ": ",
    ':"',
    "='",
    "=>",
    " is ",
    "|",
    '\\"',
    "-",
    "_",
    "",
    "\n",
    '("',
    "{",
    "=a",
    "=a1B!",
    "=1 ",
    "/",
)
_SIGNS = (
    *"\"'`“”<>()[]{}|=:@$%!#,;&\\0漢",
    *('\\"', '"""', "((", "| a ", "- ", "* ", "://", "a://b:", "!a1A", "1,", "1, ", "&a=b", "?a=", "a=b; ", "\\n"),
    *("\t", "\r\n", "İ", "0-", "A1-", "a.", "a/", "aB1", "-----", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----("),
    *("<private>", "</private>", "<pri", "[secret:", "[secret:password]", "[opaque:4]", "x:5432:", "the ", "WIFI:P:"),
    *("12. abc ", "1. abc ", "abandon ", "| --- ", "|---|\n", "| password |\n|---|\n", "eyJ", "eyJhIjog"),
)


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Every compiled pattern of the modules, with where it is."""
    for name in dict.fromkeys(MODULES):
        module = importlib.import_module(name)
        for attribute, value in vars(module).items():
            yield from _within(f"{name.rpartition('.')[2]}.{attribute}", value)


def _within(place: str, value: Any) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(value, (re.Pattern, LazyRegex)):
        yield place, cast("re.Pattern[str]", value)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _within(f"{place}[{key}]", one)
    elif isinstance(value, tuple):
        for number, one in enumerate(value):
            yield from _within(f"{place}[{number}]", one)


def tree_of(pattern: re.Pattern[str]) -> Any:
    """The parsed pattern: a list of pairs of code and arguments, as the standard library's parser gives it."""
    return parser.parse(pattern.pattern, pattern.flags)


def units(seed: int = 1) -> dict[str, str]:
    """The texts to be repeated, each at most 200 characters long, and where each comes from."""
    from engram.redaction import assignments

    rng = random.Random(seed)
    found: dict[str, str] = {}
    for place, pattern in patterns():
        for longer in (0, 1, 8):
            text = _sample(tree_of(pattern), rng, longer)[:200]
            for unit in (text, text + " ", text + "\n", text[: max(1, len(text) // 2)]):
                if unit:
                    found.setdefault(unit, place)
    for stem, _ in assignments._STEMS:
        for sign in _BEHIND:
            found.setdefault(stem + sign, "assignments._STEMS")
    for sign in _SIGNS:
        found.setdefault(sign, "signs")
    return found


def _sample(tree: Any, rng: random.Random, longer: int) -> str:
    parts: list[str] = []
    for code, value in tree:
        if code is codes.LITERAL:
            parts.append(chr(value))
        elif code is codes.NOT_LITERAL:
            parts.append("a" if value != ord("a") else "b")
        elif code is codes.ANY:
            parts.append("x")
        elif code is codes.IN:
            parts.append(_one_of(value, rng))
        elif code is codes.BRANCH:
            parts.append(_sample(rng.choice(value[1]), rng, longer))
        elif code is codes.SUBPATTERN:
            parts.append(_sample(value[3], rng, longer))
        elif code is codes.ATOMIC_GROUP:
            parts.append(_sample(value, rng, longer))
        elif code in REPEATS:
            least, most, inner = value
            times = min(int(most), least + rng.choice((1, 2, longer))) if longer else least
            parts.extend(_sample(inner, rng, longer) for _ in range(times))
    return "".join(parts)


#: The codes of repeats; a possessive one gives nothing back.
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


def _one_of(items: Any, rng: random.Random) -> str:
    chars: list[str] = []
    negated = False
    for code, value in items:
        if code is codes.NEGATE:
            negated = True
        elif code is codes.LITERAL:
            chars.append(chr(value))
        elif code is codes.RANGE:
            chars.extend(map(chr, range(value[0], min(value[1], value[0] + 100) + 1)))
        elif code is codes.CATEGORY:
            name = str(value)
            chars.extend(
                "a7-" if "NOT" in name else " " if "SPACE" in name else string.digits if "DIGIT" in name else "aZ7_"
            )
    if negated:
        chars = [char for char in "aZ7x-_.,:;=/ q" if char not in chars] or ["é"]
    return rng.choice(chars)
