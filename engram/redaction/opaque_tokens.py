"""Find opaque tokens, which are long runs of random characters, in any context."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from engram.redaction.composed import is_drawn
from engram.redaction.fixed_forms import may_be_issued, provider_spans
from engram.redaction.public_labels import is_digest, is_labelled_public, is_public
from engram.redaction.values import HEX_RUN, PIECE, Span, decoded, evidence_bits, is_dummy, is_encoded_prose
from engram.system.cached import lru_cache_by_text
from engram.system.lazy_regex import lazy_regex

#: Minimum length of a run of characters that may contain a token.
SHORTEST_RUN = 16
_RUN = lazy_regex(rf"[A-Za-z0-9_\-+/=.~]{{{SHORTEST_RUN},}}")
_UUID = lazy_regex(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: Ids that stay readable: of messages, tool calls, requests, sessions and Engram's memories.
_READABLE_ID = lazy_regex(
    r"(?:toolu|msg|req|srvtoolu|call|run|thread|asst|chatcmpl|resp|evt|ep|in|cus|pi|ch|sess|session|agent|task|file|"
    r"batch|msgbatch|container|item|step|price|acct|sub|txn|seti|nonce)(?:_|-)[A-Za-z0-9_-]{4,64}"
)
#: Ids of Engram's quotations: 12 digits of a key, and a position without leading zeros. Nothing else is joined to one.
_QUOTATION_ID = lazy_regex(
    r"(?:(?<![A-Za-z0-9])(?<![A-Za-z0-9][_.~+-])|(?<=\\[nrt]))q_[0-9a-f]{12}(?:0|[1-9a-f][0-9a-f]{0,4})"
    r"(?![A-Za-z0-9]|[_.~+=-][A-Za-z0-9])"
)
_HEX_INSIDE = lazy_regex(
    r"(?<![0-9a-f])(?=[0-9]{0,64}+[a-f])[0-9a-f]{20}|"
    r"(?<![0-9A-F])(?=[0-9]{0,64}+[A-F])[0-9A-F]{20}"
)
#: Ids of AWS resources: the type, and 8 or 17 digits.
_RESOURCE_ID = lazy_regex(
    r"(?!key|tok|sec|pass|pat|sk-|pk-|api)[a-z]{1,14}(?:-[a-z]{2,8}){0,2}-(?:[0-9a-f]{17}|[0-9a-f]{8})|mrk-[0-9a-f]{32}|(?:AC|SM|MM|CA|PN|MG|VA)[0-9a-f]{32}"
)
#: Mangled names in C++, Rust, D and Swift.
_MANGLED = lazy_regex(
    r"_{1,3}Z(?:[A-Z]{0,6}\d|[NTG][A-Za-z0-9])|_R(?:[A-Z]|[A-Z][a-z]{1,3}_?)[A-Za-z]?\w|_D\d{1,3}[a-z]|\$[sS]\d"
)
_RUST_HASH = lazy_regex(r"h[0-9a-f]{16}E?")
#: Words before a token that mark it as harmless.
_HARMLESS = lazy_regex(
    r"(?i)(?:commit|\bsha\d{0,4}|hash|digest|checksum|\bmd5|etag|integrity|revision|\brev\b|\btree\b|parent|\bhead\b|merge|"
    r"cherry|rebase|branch|checkout|trace|\bspan|gist|nix/store|chunk|fingerprint|signature|address|contract|\btx\b|"
    r"image|pulled|\bblob|object|\bindex\b|bundle|asset|uuid|guid|base64,|thinking|@sha|\bgit\b|checkpoint|"
    r"request|cache|version|build|snapshot|/tree/|/blob/|node_id|go\.sum|h1:|var/folders|\bdiff\b|refs/)[^\n]{0,40}$|"
    r"(?i:etag|none-match)[\s\S]{0,40}$"
)
_TEMPORARY = lazy_regex(r"/(?:var/folders|nix/store|tmp|site-packages)/[^\s\"']{0,40}$")
_HARMFUL_WORD = (
    r"(?:secret|token|passw|passphrase|\bpwd|api[ _-]?key|private|credential|auth|bearer|"
    r"(?<!cache )\bkey\b|(?<!cache)_key|cookie)"
)
_HARMFUL = lazy_regex(rf"(?i){_HARMFUL_WORD}[^\n]{{0,30}}$")
#: Words right before and behind a token that call it a secret.
_CALLED_BEFORE = lazy_regex(rf"(?i){_HARMFUL_WORD}\w{{0,8}}(?:[^\w\n]{{1,4}}(?:is|was|as))?[^\w\n]{{0,4}}$")
_CALLED_BEHIND = lazy_regex(
    rf"(?i)[^\w\n]{{0,4}}(?:(?:is|was|as|for|to)\b[^\n]{{0,24}}?)?"
    rf"(?:{_HARMFUL_WORD}|\b(?:log|sign)(?:ging|ing)?[ -]?in\b)"
)
#: The name of a session's cookie, right before its value.
_COOKIE_BEFORE = lazy_regex(r"(?i)(?:\bsid|session[ _-]?id)[\"']?\s{0,2}[:=]\s{0,2}[\"']?$")
_FILE_END = lazy_regex(
    r"\.(?:output|js|mjs|cjs|css|map|png|jpe?g|svg|woff2?|html?|jsonl?|gz|zip|whl|txt|md|lock|py|tsx?|output|log|onion)\b|\.apps\.googleu"
)
#: Text that precedes a token, joined by `:` or `$`, and belongs to it, such as the number of a bot or account.
_JOINED_BEFORE = lazy_regex(r"(?:\d{1,20}/)?(?:(?=[A-Za-z_-]{0,20}\d)[A-Za-z0-9_-]{1,64}:|[A-Za-z0-9_]{2,40}\$){1,4}$")
_ISSUER = lazy_regex(r"(?<![A-Za-z0-9_-])(?:[a-z]{2,8}_)?(?:[0-9]{4,16}_)?$")
#: Maximum length of the prefix of an issuer, in characters.
_ISSUER_CHARACTERS = 26
_HARD_EDGE = lazy_regex(r"[\s\"'`=(,;<>\[{]")
#: The beginning of JSON in base64: an object or a list, with or without white space.
_ENCODED = lazy_regex(r"(?:ey[JAIB]|ew[0oko]|W3[siw]|Wy[JA]|Ww[ok])[A-Za-z0-9+/_-]{12}")
#: Number of characters of context to read before a token.
_CONTEXT = 56


def opaque_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of known providers' tokens and of opaque tokens that begin in `text[start:end]`."""
    for run in _RUN.finditer(text, start, end):
        if not _may_hold_token(run.group()):
            continue
        named = list(provider_spans(text, run.start(), run.end())) if may_be_issued(run.group()) else []
        yield from named
        if not named:
            yield from _judge_run(text, run)


def token_places(text: str) -> Iterator[int]:
    """Yield the beginnings of runs of characters that are random enough for a close look."""
    for run in _RUN.finditer(text):
        if _may_hold_token(run.group()):
            yield run.start()


@lru_cache_by_text(4096)
def _may_hold_token(body: str) -> bool:
    """Return True if any part of the run is random enough for a close look."""
    if evidence_bits(body) < -4.0:
        return True
    pieces = [piece for piece in PIECE.findall(body) if len(piece) >= 12]
    return any(evidence_bits(piece) < -4.0 or _HEX_INSIDE.search(piece) for piece in pieces)


def _judge_run(text: str, run: re.Match[str]) -> Iterator[Span]:
    body = run.group()
    if _ENCODED.match(body):
        holds_secret = _encoded_secret(body)
        if holds_secret is not None:
            if holds_secret:
                yield Span(run.start(), run.end(), "encoded")
            return
    if _UUID.search(body):
        body = _UUID.sub(lambda m: "." * len(m.group()), body)
    at = run.start()
    characters = list(body)
    for first, last, is_secret in _quotation_ids(text, run):
        characters[first - at : last - at] = "." * (last - first)
        if is_secret:
            yield Span(first, last, "")
    body = "".join(characters)
    pieces = [(m.start(), m.end(), m.group()) for m in PIECE.finditer(body)]
    found = [
        Span(_joined_start(text, at + first), at + last, "")
        for first, last in _random_stretches(body, pieces)
        if not _is_harmless(text, at + first, at + last)
    ]
    if found and not is_labelled_public(text, run.start(), run.end()) and not is_encoded_prose(run.group()):
        yield from found


def _quotation_ids(text: str, run: re.Match[str]) -> Iterator[tuple[int, int, bool]]:
    """Yield the position of each quotation's id in a run, and whether the surrounding words call it a secret.

    An id near a harmful word is left out, so that it is judged like any other token.
    """
    for quotation in _QUOTATION_ID.finditer(text, run.start(), run.end()):
        first, last = quotation.span()
        before = text[max(0, first - _CONTEXT) : first]
        is_near = _HARMFUL.search(before) is not None or _COOKIE_BEFORE.search(before) is not None
        is_secret = bool(_CALLED_BEHIND.match(text, last) or (is_near and _CALLED_BEFORE.search(before)))
        if is_secret or not is_near:
            yield first, last, is_secret


def _encoded_secret(body: str) -> bool | None:
    """Return whether a run of base64-encoded JSON contains a named secret; None if it is not such JSON."""
    from engram.redaction.assignments import named_spans

    text = decoded(body)
    try:
        is_json = isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return None
    if not is_json:
        return None
    return any(True for _ in named_spans(text, text.lower(), 0, len(text))) if text.isascii() else True


def _joined_start(text: str, begin: int) -> int:
    """Return the beginning of the token, including text that is joined to it from the left."""
    if begin == 0 or text[begin - 1] not in ":$":
        return begin
    first = begin
    while first > max(0, begin - 120) and not _HARD_EDGE.match(text[first - 1]):
        first -= 1
    return first if _JOINED_BEFORE.fullmatch(text, first, begin) else begin


def _random_stretches(body: str, pieces: list[tuple[int, int, str]]) -> Iterator[tuple[int, int]]:
    """Yield adjacent random pieces as a single stretch; short pieces between them count as part of the token."""
    group: list[tuple[int, int, str]] = []
    bits = 0.0
    for piece in [*pieces, (len(body), len(body), "")]:
        own = -12.0 if len(piece[2]) >= 20 and _HEX_INSIDE.search(piece[2]) else evidence_bits(piece[2])
        written = own > 3.0 and len(piece[2]) >= 4
        if piece[2] and not written and (not group or piece[0] - group[-1][1] <= 2):
            group.append(piece)
            bits += own
            continue
        if group:
            yield from _accept(body, group, bits)
        group, bits = ([], 0.0) if written or not piece[2] else ([piece], own)


def _accept(body: str, group: list[tuple[int, int, str]], bits: float) -> Iterator[tuple[int, int]]:
    first, last = group[0][0], group[-1][1]
    while last < len(body) and body[last] in "=+/_-~":
        last += 1
    size = sum(len(p) for _, _, p in group)
    token = body[first:last]
    if HEX_RUN.fullmatch(token):
        if size >= 24:
            yield first, last
        return
    first = _prefix_start(body, first)
    longest = max(len(p) for _, _, p in group)
    if (
        size >= 12
        and bits < -11.0
        and longest >= 12
        and (is_drawn(token) or (size >= 16 and token.isalpha() and bits < -16.0))
    ):
        yield first, last
        return
    if not any(c.isdigit() for c in token) and size < 24:
        return
    if (size >= 20 and bits < -8.0 and longest >= 8) or (size >= 16 and bits < -12.0 and longest >= 12):
        yield first, last


def _prefix_start(body: str, first: int) -> int:
    """Return the beginning of the token, including the prefix of its issuer, such as `pk_12345678_`."""
    match = _ISSUER.search(body, max(0, first - _ISSUER_CHARACTERS), first)
    return match.start() if match else first


def _is_harmless(text: str, first: int, last: int) -> bool:
    token = text[first:last]
    before = text[max(0, first - _CONTEXT) : first]
    if _TEMPORARY.search(before):
        return True
    id_start = max(before.rfind(c) for c in " \t\n\"'`(/:=,[{<>") + 1
    whole = before[id_start:] + token
    if _READABLE_ID.match(whole) or _RESOURCE_ID.fullmatch(whole) or _MANGLED.match(whole):
        return True
    if before.endswith("::") and _RUST_HASH.fullmatch(token):
        return True
    if is_public(text, first, last) or is_dummy(token):
        return True
    if _FILE_END.search(text, last - 8, last + 12):
        return True
    if before.endswith("0x") and len(token) <= 40:
        return True
    if token.startswith("0x") and len(token) <= 42:
        return True
    if is_digest(text, first, last):
        return True
    return bool(_HARMLESS.search(before)) and not _HARMFUL.search(before)
