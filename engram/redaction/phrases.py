"""Secrets made of plain words or few digits: wallet phrases, one-time codes, user and password side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.marks import Span
from engram.redaction.values import has_plain_shape, is_mixed, is_placeholder

_WALLET = re.compile(
    r"mnemonic|seed phrase|seed words|(?:recovery|backup|secret|wallet)(?: recovery)? (?:phrase|words|seed)|bip-?39"
)
_WORDS = re.compile(
    r"(?:[ \t\n\"'`:=,.)(\-*]|is|are|my|the|\d{1,2}[.):])*?((?:(?:\d{1,2}[.):] ?)?[a-z]{3,8}[ ,\n\t\-|]{1,4}){10,24}[a-z]{3,8})"
)
#: Twelve or more words with nothing between them that makes a sentence.
_BARE_WORDS = re.compile(r"(?<![\w,.;:-] )(?<![\w])(?:[a-z]{3,8} ){11,23}[a-z]{3,8}(?![\w ]*[,;:])(?=[\"'`\n]|$)")
_SENTENCE = re.compile(
    r"\b(?:the|and|for|are|was|has|not|but|from|its|our|your|their|which|when|then|been|were|does|how|why|who|use|uses)\b"
)
_CODE = re.compile(
    r"(?:(?:verification|one[- ]time|security|2fa|mfa|two[- ]factor|sms|login|auth(?:entication|enticator)?|confirmation|"
    r"access|door|gate|alarm|lock|pairing|unlock|sign[- ]?in|activation|invite|backup|recovery|otp|totp|pin)[- ]codes?|otp|totp|2fa|pin|passcode)"
    r"(?: (?:for|to|of|on) [^\n:=.]{1,30}?)?(?: ?[:=] ?| is:? (?:now )?| was )[\"'`]?((?:\d{3}[- ]\d{3}|\d{4,8}|[A-Za-z0-9]{4,6}(?:-[A-Za-z0-9]{4,6}){1,7}))\b"
)
_LIST_CODE = re.compile(r"[A-Za-z0-9]{4,10}(?:-[A-Za-z0-9]{4,10}){0,4}")
_PAIR = re.compile(
    r"(?:log ?in|sign ?in|ssh(?: in)?|creds?|credentials?|connect|account|auth|login|user(?:name)?|root)(?: (?:is|are|as|with|using|for [^\n:/]{1,24}))?[:=]? {0,2}"
    r"[\"'`]?[\w.@+-]{2,40}[\"'`]? {0,2}(?:/|:|,| and | with | - |\|) {0,2}(?:pass(?:word)?:? )?[\"'`]?([^\s\"'`]{6,64})"
)


def phrase_spans(text: str, low: str, start: int, end: int) -> Iterator[Span]:
    """Spans of wallet phrases, one-time codes, and passwords told together with a user name."""
    for wallet in _WALLET.finditer(low, start, end):
        words = _WORDS.match(text, wallet.end())
        if words:
            yield Span(*words.span(1), "seed-phrase")
    for words in _BARE_WORDS.finditer(text, start, end):
        if not _SENTENCE.search(words.group()):
            yield Span(words.start(), words.end(), "seed-phrase")
    for code in _CODE.finditer(low, start, end):
        if any(c.isdigit() for c in code.group(1)):
            yield Span(*code.span(1), "code")
    for pair in _PAIR.finditer(low, start, end):
        first, last = pair.span(1)
        while last > first and text[last - 1] in ".,;:)":
            last -= 1
        value = text[first:last]
        if is_mixed(value) and not is_placeholder(value) and not has_plain_shape(value) and _is_password(value):
            yield Span(first, last, "password")


def _is_password(value: str) -> bool:
    if any(c in "/\\()[]{}<>," for c in value):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
