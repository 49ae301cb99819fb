"""Redact text: apply every rule, join the spans, insert placeholders. All text passes through here."""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from operator import or_

from engram.redaction.assignments import name_places, named_spans
from engram.redaction.command_lines import command_spans
from engram.redaction.composed import composed_spans, made_up_places, may_be_made_up, placed_spans, word_spans
from engram.redaction.config_lines import config_spans
from engram.redaction.fixed_forms import drop_private, key_blocks, link_spans
from engram.redaction.known_values import SHORTEST, known_spans
from engram.redaction.listed_secrets import alike_spans, listed_spans
from engram.redaction.opaque_tokens import SHORTEST_RUN, opaque_spans, token_places
from engram.redaction.phrases import phrase_spans
from engram.redaction.program_secrets import program_spans
from engram.redaction.spoken_secrets import spoken_spans
from engram.redaction.told_cues import HINTS, OPENS, openings
from engram.redaction.told_secrets import told_spans
from engram.redaction.values import Span, held_places, hide_marks, merge, outside_placeholders, replace
from engram.system.cached import empty_with_texts
from engram.system.lazy_regex import lazy_regex

# -- Find the words of a text that need a close look. Every distinct word is judged once, and most words are plain.
#
# Ordinary text repeats its words. Each is remembered with what it may contain: a token, a made-up password, the name of
# a secret, or literals. The rules for tokens, passwords and names then run only over the few words that may contain
# them, and the rules that need a literal only over texts that contain it.

#: Maximum number of words to remember, and maximum length of such a word, in characters.
_MAX_REMEMBERED = 60_000
_MAX_WORD_CHARS = 64
#: Maximum number of words to search for one by one; for more words, the text is read once, word by word.
_FEW = 16
_WORD = lazy_regex(r"\S+")
#: Names of secrets that contain a space and so can't be recognised in single words.
_OF_TWO_WORDS = ("session key", "connection string", "login with", "invite code", "community string", "snmp community")

#: Words that contain nothing of interest, and what each of the others may contain.
_plain: set[str] = set()
_looks: dict[str, int] = {}
empty_with_texts(_plain.clear)
empty_with_texts(_looks.clear)

#: Bits for what a word may contain; the bits of literals are shifted to lie above these.
TOKEN, NAME, PASSWORD = 1, 2, 4
_ABOVE = 3


def places(text: str, low: str) -> tuple[list[tuple[int, int, int]], int, dict[str, bool]]:
    """Return the words that need a close look, the possible literals, and the words that may introduce a secret.

    A word that needs a close look is returned as start, end and reason. A word that may introduce a secret is returned
    with whether it does so even in a long text.

    Args:
        low: the text in lower case.
    """
    words = set(text.split()).difference(_plain)
    looks = {word: look for word in words if (look := _looks.get(word)) is not None}
    if new := words.difference(looks):
        looks |= _judge(new)
    held = reduce(or_, looks.values(), 0) >> _ABOVE
    opening = {word: bool(look >> _ABOVE & OPENS) for word, look in looks.items() if look >> _ABOVE & (OPENS | HINTS)}
    flagged = {word: look for word, look in looks.items() if look & (TOKEN | NAME | PASSWORD)}
    found: list[tuple[int, int, int]] = []
    if len(flagged) > _FEW:
        for match in _WORD.finditer(text):
            if match.group() in flagged:
                found.append((match.start(), match.end(), flagged[match.group()]))
    else:
        for word, look in flagged.items():
            found += ((at, at + len(word), look) for at in _occurrences(text, word))
    for name in _OF_TWO_WORDS:
        at = low.find(name)
        while at >= 0:
            found.append((at, at + len(name), NAME))
            at = low.find(name, at + 1)
    return sorted(found), held, opening  # sorted, so that if a value has two kinds, the same kind wins each time


def _judge(new: set[str]) -> dict[str, int]:
    """Return what the words contain, and remember it.

    Words are examined together, one per line; the slower rules examine only the few words in which they may find
    anything.
    """
    words = list(new)
    lines = "\n".join(words)
    low = lines.lower()
    if len(low) != len(lines):
        return dict.fromkeys(words, -1)
    looks = dict.fromkeys(words, 0)
    names = [(at, NAME) for at in name_places(lines, low)]
    _note(looks, words, [*names, *((at, bit << _ABOVE) for at, bit in held_places(low))])
    long = [word for word in words if len(word) >= SHORTEST_RUN]
    _note(looks, long, [(at, TOKEN) for at in token_places("\n".join(long))])
    mixed = [word for word in words if may_be_made_up(word)]
    lines = "\n".join(mixed)
    drawn = [(span.start, PASSWORD) for span in word_spans(lines, 0, len(lines))]
    _note(looks, mixed, [*drawn, *((at, HINTS << _ABOVE) for at in made_up_places(lines))])
    for number, bit in openings(low):
        looks[words[number]] |= bit << _ABOVE
    held = {word: look for word, look in looks.items() if look}
    if len(_plain) + len(_looks) > _MAX_REMEMBERED:
        _plain.clear()
        _looks.clear()
    long = [word for word in words if len(word) > _MAX_WORD_CHARS]
    _plain.update(new.difference(held, long))
    _looks.update((word, held[word]) for word in held.keys() - long)
    return held


def _note(looks: dict[str, int], words: Sequence[str], found: Sequence[tuple[int, int]]) -> None:
    """Add what was found to the words that contain it: position in the words, which are one per line, and bits."""
    starts = list(accumulate((len(word) + 1 for word in words), initial=0)) if found else []
    for at, look in found:
        looks[words[bisect_right(starts, at) - 1]] |= look


def places_of(text: str, opening: Mapping[str, bool]) -> dict[int, bool]:
    """Return the positions of words that may introduce a secret, each with whether it does so in a long text."""
    return {at: is_sure for word, is_sure in opening.items() for at in _occurrences(text, word)}


def _occurrences(text: str, word: str) -> Iterator[int]:
    at, size, last = text.find(word), len(word), len(text)
    while at >= 0:
        stop = at + size
        if (not at or text[at - 1].isspace()) and (stop == last or text[stop].isspace()):
            yield at
        at = text.find(word, stop)


#: Number of characters in the windows in which text is processed, so that no rule reads more at a time.
WINDOW = 65_536
#: Adjacent windows overlap by this many characters, so that nothing is cut at their boundary.
OVERLAP = 4_096
#: Masking may create new neighbours. The rules are applied until nothing changes, at most this many times.
_ROUNDS = 8
#: Kinds of values of which repetitions in the same text are also masked, and the maximum number of values to search
#: for.
_TOLD = frozenset({"password", "token", "code"})
_REPEATED = 40
#: Separator of parts that are read together; no rule finds anything that extends across a control character.
_BETWEEN = "\n\x1e\n"
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def redact(text: str, known: Collection[bytes] = ()) -> str:
    """Return the text with each secret replaced by a placeholder such as `[secret:aws-key]` or `[opaque:40]`.

    Everything between `<private>` tags is dropped. Redacting again changes nothing. This never fails, and takes time
    proportional to the length of the text.

    Args:
        text: any text, of any length.
        known: entries, made by `hash_value`, of values seen in `.env` lines; these values are masked everywhere.
    """
    for _ in range(_ROUNDS):
        cleaned = _once(text, known)
        if cleaned == text:
            return text
        text = cleaned
    return text


def redact_parts(
    parts: Sequence[str],
    known: Collection[bytes] = (),
    redact_text: Callable[[str, Collection[bytes]], str] = redact,
) -> list[str]:
    """Return the parts of a text, each redacted as by ``redact``; for most texts, this takes a third of the time.

    Secrets are rare, so the parts are read together first, and one by one only if there is anything to replace.
    """
    together = _BETWEEN.join(parts)
    return list(parts) if redact_text(together, known) == together else [redact_text(part, known) for part in parts]


def _once(text: str, known: Collection[bytes]) -> str:
    text = drop_private(text)
    spans = merge(key_blocks(text))
    if spans:
        text = replace(text, outside_placeholders(text, spans))
    all_spans: list[Span] = []
    for window, offset in _windows(text):
        all_spans += (Span(s.start + offset, s.end + offset, s.kind) for s in _window_spans(window, known))
    spans = merge(all_spans)
    if spans:
        spans = merge([*spans, *_repetitions(text, spans), *alike_spans(text, spans, _TOLD)])
    return replace(text, outside_placeholders(text, spans)) if spans else text


def _repetitions(text: str, spans: list[Span]) -> Iterator[Span]:
    """Yield the repetitions, without a name, of values that were introduced by a name or are passwords."""
    values = {text[s.start : s.end]: s.kind for s in spans if s.kind in _TOLD and SHORTEST <= s.end - s.start <= 200}
    for value, kind in list(values.items())[:_REPEATED]:
        if value.isalpha() or value.isdigit():
            continue
        at = text.find(value)
        while at >= 0:
            after = text[at + len(value) : at + len(value) + 1]
            if not (at and text[at - 1].isalnum()) and not after.isalnum():
                yield Span(at, at + len(value), kind)
            at = text.find(value, at + len(value))


def _windows(text: str) -> Iterator[tuple[str, int]]:
    if len(text) <= WINDOW:
        yield text, 0
        return
    for start in range(0, len(text), WINDOW - OVERLAP):
        yield text[start : start + WINDOW], start


def lowered(text: str) -> str:
    """Return the text in lower case, with the same length and with placeholders replaced by spaces."""
    low = text.lower()
    return hide_marks(low if len(low) == len(text) else text.translate(_ASCII_LOWER))


def _window_spans(text: str, known: Collection[bytes]) -> Iterator[Span]:
    low = lowered(text)
    looked, held, opening = places(text, low)
    for start, end, look in looked:
        if look & TOKEN:
            yield from opaque_spans(text, start, end)
    for start, end, look in looked:
        if look & NAME:
            yield from named_spans(text, low, start, end)
        if look & PASSWORD:
            yield from placed_spans(text, start, end)
    yield from command_spans(text, low, held)
    yield from config_spans(text, low, held)
    yield from program_spans(text, low, held)
    yield from composed_spans(text)
    yield from phrase_spans(text, low, held)
    openers = places_of(text, opening)
    yield from listed_spans(text, low, held, [*openers, *(start for start, _, look in looked if look & NAME)])
    yield from spoken_spans(text, low, held)
    if openers:
        yield from told_spans(text, low, openers)
    if "://" in text:
        yield from link_spans(text)
    if known:
        yield from known_spans(text, known)
