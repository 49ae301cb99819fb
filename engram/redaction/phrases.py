"""Secrets made of plain words or few digits: wallet phrases, one-time codes, user and password side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from engram.redaction.placeholders import Span
from engram.redaction.values import has_plain_shape, is_mixed, is_placeholder

_WALLET = re.compile(
    r"mnemonic|seed phrase|seed words|(?:recovery|backup|secret|wallet)(?: recovery)? (?:phrase|words|seed)|bip-?39"
)
_WORDS = re.compile(
    r"(?:[ \t\n\"'`:=,.)(\-*]|is|are|my|the|\d{1,2}[.):]){0,40}?((?:(?:\d{1,2}[.):] ?)?[a-z]{3,8}[ ,\n\t\-|"
    r"]{1,4}){10,24}(?:\d{1,2}[.):] ?)?[a-z]{3,8})"
)
#: Words that are numbered from 1, in one line or one a line.
_NUMBERED = re.compile(
    r"(?<![\w.])#?1[.):]?[ \t]{0,3}[a-z]{3,8}(?:[ ,;|\n\t]{1,8}#?\d{1,2}[.):]?[ \t]{0,3}[a-z]{3,8}(?![\w-])){11,23}"
)
#: What every such list holds.
_TWELFTH = re.compile(r"12[.):]?[ \t]{0,3}[a-z]{3}")
_NUMBERED_WORD = re.compile(r"(\d{1,2})[.):]?[ \t]{0,3}([a-z]{3,8})")
#: Possible numbers of words in a wallet phrase.
_WALLET_SIZES = frozenset({12, 15, 18, 21, 24})
#: A run of words in small letters with nothing between them.
_PLAIN_WORDS = re.compile(r"[a-z]++(?:[ \n][a-z]++)*+")
#: Minimum number of small letters and blanks before the end of a phrase.
_PLAIN_END = re.compile(r"[\n\"'`<](?<=[a-z \n]{47}[\n\"'`<])")
_PLAIN_TAIL = re.compile(r"[a-z \n]{47}")
_SENTENCE = re.compile(
    r"\b(?:the|and|for|are|was|has|not|but|from|its|our|your|their|which|when|then|been|were|does|how|why|who|use|"
    r"uses)\b"
)
_CODE_OF = re.compile(
    r"(?:verification|one[- ]time|security|2fa|mfa|two[- ]factor|sms|login|auth(?:entication|enticator)?|"
    r"confirmation|access|door|gate|alarm|lock|pairing|unlock|sign[- ]?in|activation|invite|backup|recovery|otp|totp|"
    r"pin|reset|scratch)[- ]$"
)
_CODE = re.compile(
    r"(codes?|t?otp|2fa|pin|passcode)\b(?: (?:for|to|of|on) [^\n:=.]{1,30}?)?(?:[ \"']{0,2}[:=]\s?| (?:is|are):? "
    r"(?:now )?| was |\s)[\"'`]?((?:\d{3}[- ]\d{3}|\d{4,8}|[a-z0-9]{4,6}(?:-[a-z0-9]{4,6}){1,7}))\b"
)
#: The beginnings of all such codes.
_CODE_STEMS = ("code", "totp", "otp", "2fa", "pin", "passcode")
#: The beginnings of all pairs.
_PAIR_STEMS = ("log in", "login", "sign in", "signin", "ssh", "cred", "connect", "account", "auth", "user", "root")
_PAIR = re.compile(
    r"(?:log ?in|sign ?in|ssh(?: in)?|creds?|credentials?|connect|account|auth|login|user(?:name)?|root)(?: (?:is|"
    r"are|as|with|using|for [^\n:/]{1,24}))?[:=]? {0,2}[\"'`]?[\w.@+-]{2,40}[\"'`]? {0,2}(?:/|:|,| and | with | - |\|"
    r") {0,2}(?:pass(?:word)?:? )?[\"'`]?([^\s\"'`]{6,64})"
)


def phrase_spans(text: str, low: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of wallet phrases, one-time codes, and passwords given together with a user name."""
    if "phrase" in low or " words" in low or "seed" in low or "mnemonic" in low or "bip" in low:
        for wallet in _WALLET.finditer(low, start, end):
            words = _WORDS.match(text, wallet.end())
            if words:
                yield Span(*words.span(1), "seed-phrase")
    if _PLAIN_TAIL.fullmatch(text, max(start, end - 47), end) or _PLAIN_END.search(text, start, end):
        yield from _bare_phrases(text, start, end)
    if _TWELFTH.search(low, start, end):
        for numbered in _NUMBERED.finditer(low, start, end):
            if _is_numbered_wallet(numbered.group()):
                yield Span(*numbered.span(), "seed-phrase")
    yield from _codes(low, start, end)
    for pair in _matches_at(_PAIR_STEMS, _PAIR, low, start, end):
        first, last = pair.span(1)
        while last > first and text[last - 1] in ".,;:)":
            last -= 1
        value = text[first:last]
        if is_mixed(value) and not is_placeholder(value) and not has_plain_shape(value) and _is_password(value):
            yield Span(first, last, "password")


def _is_numbered_wallet(listed: str) -> bool:
    """Return whether a list holds as many different words as a wallet phrase, each with its number, in columns or
    rows.
    """
    words = _NUMBERED_WORD.findall(listed)
    numbers = sorted(int(number) for number, _ in words)
    is_whole = len(words) in _WALLET_SIZES and numbers == list(range(1, len(words) + 1))
    return is_whole and len({word for _, word in words}) >= 8 and not any(_SENTENCE.fullmatch(w) for _, w in words)


def _matches_at(
    stems: Iterable[str], pattern: re.Pattern[str], low: str, start: int, end: int
) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern, tried only at the beginnings of all that it matches."""
    starts: set[int] = set()
    for stem in stems:
        at = low.find(stem, start, end)
        while at >= 0:
            starts.add(at)
            at = low.find(stem, at + 1, end)
    for at in sorted(starts):
        match = pattern.match(low, at, end) if at >= start else None
        if match:
            yield match
            start = match.end()


def _bare_phrases(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield twelve to twenty-four words that form no sentence, at the end of a run of plain words."""
    for run in _PLAIN_WORDS.finditer(text, start, end):
        if run.end() - run.start() < 47 or text[run.end() : run.end() + 1] not in ("", "\n", '"', "'", "`", "<"):
            continue
        lines = run.group().split("\n") if run.group().count("\n") < 11 else [run.group()]
        at = run.start()
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


def _codes(low: str, start: int, end: int) -> Iterator[Span]:
    for code in _matches_at(_CODE_STEMS, _CODE, low, start, end):
        first = code.start()
        if code.group(1).startswith("code"):
            qualified = bool(_CODE_OF.search(low, max(0, first - 20), first))
        else:
            qualified = not first or not low[first - 1].isalnum()
        if qualified and any(c.isdigit() for c in code.group(2)):
            yield Span(*code.span(2), "code")


def _is_password(value: str) -> bool:
    if any(c in "/\\()[]{}<>," for c in value):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
