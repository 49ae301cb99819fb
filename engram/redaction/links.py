"""Secrets inside URLs: user info, query parameters, and the paths of webhooks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.placeholders import Span
from engram.redaction.values import is_mixed, is_placeholder, total_bits

_SCHEME = re.compile(r"://")
_USER_INFO = re.compile(r"([^\s/@:\"'<>?#\\]{0,128}):([^\s/\"'<>?#\\]{1,512})@|([^\s/@:\"'<>?#\\]{8,512})@")
#: A password that contains a slash or similar, before a host with a dot.
_LOOSE_INFO = re.compile(r"([^\s/@:\"'<>]{1,64}):(?!\d{1,5}[/?#])([^\s\"'<>@]{4,128})@(?=[\w-]++(?:\.[\w.-]|[:/]|$))")
_REST = re.compile(r"[^\s\"'<>`)\]]{0,4096}")
_PARAMETER = re.compile(
    r"(?i)[?&#;](?:[\w.-]{0,24}(?:key|token|sig|signature|secret|auth|passw(?:or)?d|pass|pwd|credential|jwt|session|"
    r"apikey|pat|code|otp|ticket|assertion|hmac|hash_?key))=([^&\s\"'<>#]{4,4096})"
)
_HOOK = re.compile(
    r"(?i)hook|ifttt\.com/trigger|hc-ping\.com|/bot\d|logic\.azure|/services/T|api/v\d/alerts|betteruptime|opsgenie|"
    r"pagerduty"
)
_SEGMENT = re.compile(r"[A-Za-z0-9_@.:~-]{6,}")


def link_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of passwords, tokens and webhook keys in URLs whose `://` is in `text[start:end]`."""
    done = start
    for scheme in _SCHEME.finditer(text, start, end):
        at = scheme.end()
        yield from _user_info(text, at)
        rest = _REST.match(text, at) if at >= done else None
        if not rest:
            continue
        done = rest.end()
        for parameter in _PARAMETER.finditer(text, at, done):
            value = parameter.group(1)
            if not is_placeholder(value) and (is_mixed(value, 6) or total_bits(value) < -3.0):
                yield Span(*parameter.span(1), "url-parameter")
        if _HOOK.search(rest.group()):
            yield from _hook_path(text, at, done)


def _user_info(text: str, at: int) -> Iterator[Span]:
    info = _USER_INFO.match(text, at) or _LOOSE_INFO.match(text, at)
    if not info:
        return
    groups = info.groups()
    if groups[1] is not None:
        if not is_placeholder(groups[1]):
            yield Span(*info.span(2), "password")
        if groups[0] and len(groups[0]) >= 16 and total_bits(groups[0]) < -4.0:
            yield Span(*info.span(1), "token")
    elif len(groups) > 2 and groups[2] and any(c.isdigit() for c in groups[2]) and total_bits(groups[2]) < 0:
        yield Span(*info.span(3), "token")


def _hook_path(text: str, at: int, stop: int) -> Iterator[Span]:
    host_end = text.find("/", at, stop)
    if host_end < 0:
        return
    for segment in _SEGMENT.finditer(text, host_end, stop):
        value = segment.group()
        if (
            any(c.isdigit() for c in value)
            and (len(value) >= 8 or not value.isdigit())
            and (total_bits(value) < (1.0 if len(value) > 12 else 4.0) or value.isdigit())
        ):
            yield Span(segment.start(), segment.end(), "webhook")
