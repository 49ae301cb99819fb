"""Find secrets in phrases: wallet phrases and seeds of authenticators."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from engram.redaction.values import Gate, Span, has_digit, total_bits
from engram.system.lazy_regex import lazy_regex

_WALLET = lazy_regex(
    r"mnemonic|seed phrase|seed words|(?:recovery|backup|secret|wallet)(?: recovery)? (?:phrase|words|seed)|bip-?39"
)
_WALLET_WORDS = Gate("phrase", " words", "seed", "mnemonic", "bip")
_WORDS = lazy_regex(
    r"(?:[ \t\n\"'`:=,.)(\-*]|is|are|my|the|\d{1,2}[.):]){0,40}?((?:(?:\d{1,2}[.):] ?)?[a-z]{3,8}[ ,\n\t\-|"
    r"]{1,4}){10,24}(?:\d{1,2}[.):] ?)?[a-z]{3,8})"
)
#: Words that are numbered from 1, all on one line or one per line.
_NUMBERED = lazy_regex(
    r"(?<![\w.])#?1[.):]?[ \t]{0,3}[a-z]{3,8}(?:[ ,;|\n\t]{1,8}#?\d{1,2}[.):]?[ \t]{0,3}[a-z]{3,8}(?![\w-])){11,23}"
)
#: A part that every such list contains.
_TWELFTH = lazy_regex(r"12[.):]?[ \t]{0,3}[a-z]{3}")
_NUMBERED_WORD = lazy_regex(r"(\d{1,2})[.):]?[ \t]{0,3}([a-z]{3,8})")
#: Possible numbers of words in a wallet phrase.
_WALLET_SIZES = frozenset({12, 15, 18, 21, 24})
#: A run of lower-case words with nothing between them, read in either direction.
_PLAIN_WORDS = lazy_regex(r"[a-z]++(?:[ \n][a-z]++)*+")
#: Bytes that mark lower-case letters, spaces and line breaks, and all other characters, so that long runs are found
#: fast.
_PLAIN, _OTHER = b"p", b"-"
_PLAIN_MARKS = bytes((_PLAIN if chr(code) in f"{string.ascii_lowercase} \n" else _OTHER)[0] for code in range(256))
#: Minimum number of such characters before the end of a phrase, the line breaks that end a phrase, other ends, and
#: ends that follow a space.
_PLAIN_SIZE = 47
_PLAIN_LINE_END = lazy_regex(r"\n(?![a-z])")
_PLAIN_ENDS = "\"'`<.,;)，。"
_SPACED_ENDS = "-–—("
_SENTENCE = lazy_regex(
    r"\b(?:the|and|for|are|was|has|not|but|from|its|our|your|their|which|when|then|been|were|does|how|why|who|use|"
    r"uses)\b"
)
#: The seed of an authenticator, in groups of four or in one piece, near a word that says what it is for.
_SEED = lazy_regex(
    r"(?<![a-z0-9])(?:oath\w{0,6}|[th]?otp|2fa|mfa|two-factor|authenticator)(?![a-z0-9])"
    r"[^\n]{0,80}?(?:\n[ \t]{0,8})?[\s\"'`:]"
    r"(?P<seed>(?:[a-z2-7]{4}[ -]){3,15}[a-z2-7]{4}|[a-z2-7]{16,64})(?![\w-])"
)
_SEED_BEGINNINGS = Gate("oath", "totp", "hotp", "otp", "2fa", "mfa", "two-factor", "authenticator")


def phrase_spans(text: str, low: str, held: int) -> Iterator[Span]:
    """Yield the spans of wallet phrases and seeds of authenticators.

    Args:
        low: the same text in lower case, of the same length.
        held: the bits of the literals that the text may contain; see ``Gate``.
    """
    if _WALLET_WORDS.is_open(low, held):
        for wallet in _WALLET.finditer(low):
            words = _WORDS.match(text, wallet.end())
            if words:
                yield Span(*words.span(1), "seed-phrase")
    yield from _bare_phrases(text)
    if _TWELFTH.search(low):
        for numbered in _NUMBERED.finditer(low):
            if _is_numbered_wallet(numbered.group()):
                yield Span(*numbered.span(), "seed-phrase")
    for seed in _SEED_BEGINNINGS.matches(_SEED, low, held):
        first, last = seed.span("seed")
        value = text[first:last]
        if has_digit(value) and (value.isupper() or value.islower()) and total_bits(re.sub(r"[ -]", "", value)) < -2:
            yield Span(first, last, "seed")


def _is_numbered_wallet(listed: str) -> bool:
    """Return True if a list has as many different numbered words as a wallet phrase, in columns or rows."""
    words = _NUMBERED_WORD.findall(listed)
    numbers = sorted(int(number) for number, _ in words)
    is_whole = len(words) in _WALLET_SIZES and numbers == list(range(1, len(words) + 1))
    return is_whole and len({word for _, word in words}) >= 8 and not any(_SENTENCE.fullmatch(w) for _, w in words)


def _bare_phrases(text: str) -> Iterator[Span]:
    """Yield twelve to twenty-four words that do not form a sentence, at the end of a run of plain words."""
    ends = list(_plain_ends(text))
    backwards = text[::-1] if ends else ""
    for end in ends:
        run = _PLAIN_WORDS.match(backwards, len(text) - end)
        if not run or len(run.group()) < _PLAIN_SIZE:
            continue
        listed = run.group()[::-1]
        lines = listed.split("\n") if listed.count("\n") < 11 else [listed]
        at = end - len(listed)
        for line in lines:
            words = line.split()
            kept = len(words)
            while kept and 3 <= len(words[kept - 1]) <= 8 and not _SENTENCE.fullmatch(words[kept - 1]):
                kept -= 1
            phrase = words[kept:]
            if 12 <= len(phrase) <= 26 and len(set(phrase)) >= 8:
                size = len(" ".join(phrase))
                yield Span(at + len(line) - size, at + len(line), "seed-phrase")
            at += len(line) + 1


def _plain_ends(text: str) -> Iterator[int]:
    """Yield the positions where a phrase may end: in and after long runs of lower-case letters and white space."""
    marks = text.encode("latin-1", "replace").translate(_PLAIN_MARKS)
    start = marks.find(_PLAIN * _PLAIN_SIZE)
    while start >= 0:
        stop = marks.find(_OTHER, start)
        stop = stop if stop >= 0 else len(text)
        yield from (end.start() for end in _PLAIN_LINE_END.finditer(text, start + _PLAIN_SIZE, stop))
        if stop == len(text) or text[stop] in _PLAIN_ENDS:
            yield stop
        elif text[stop] in _SPACED_ENDS and text[stop - 1] == " ":
            yield stop - 1
        start = marks.find(_PLAIN * _PLAIN_SIZE, stop)
