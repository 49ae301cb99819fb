"""Find secrets with a fixed form: key blocks, private tags, parts of URLs, tokens with a prefix of their issuer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.values import Span, is_dummy, is_mixed, is_placeholder, total_bits
from engram.system.cached import lru_cache_by_text
from engram.system.lazy_regex import any_case, lazy_regex

# -- Secrets that span lines: key blocks with a header, and text that the user put between private tags.

_PRIVATE_TAG = any_case(r"<(/?)private(?:\s[^<>]{0,200})?>")
_BEGIN = lazy_regex(r"-----BEGIN ([A-Z0-9 ]{0,40}?)(PRIVATE KEY|PRIVATE KEY BLOCK|OpenVPN Static key V1)-----")
#: Dropping a part may join the halves of another tag. After this many repetitions, the rest of the text is dropped.
_MOST_TAGS_WITHIN_TAGS = 8
#: The body of a key block: base64 or hex lines, headers, real or escaped line ends, quotation marks on each line.
_BODY = lazy_regex(r"(?:[A-Za-z0-9+/=_.\s\"'>|#\\,;+-]|: )*")
_PUTTY = lazy_regex(r"Private-(?:Lines: \d+|MAC: )")
_PUTTY_BODY = lazy_regex(r"[A-Za-z0-9+/=\s]{1,8000}")
#: Maximum number of characters to mask of a key block without an end.
_MAX_BLOCK_CHARS = 65_536


def drop_private(text: str) -> str:
    """Return the text without the parts between `<private>` and `</private>`; an unclosed tag drops the rest.

    Tags may be nested, have attributes and be written in any case; of a closing tag without an opening one, only the
    tag is dropped.
    """
    if "private" not in text and "private" not in text.lower():
        return text
    for _ in range(_MOST_TAGS_WITHIN_TAGS):
        kept = _without_private(text)
        if kept == text:
            return text
        text = kept
    tag = _PRIVATE_TAG.search(text)
    return text[: tag.start()] if tag else text


def _without_private(text: str) -> str:
    parts: list[str] = []
    depth = 0
    at = 0
    for tag in _PRIVATE_TAG.finditer(text):
        if depth == 0:
            parts.append(text[at : tag.start()])
        depth = max(0, depth - 1) if tag.group(1) else depth + 1
        at = tag.end()
    if depth == 0:
        parts.append(text[at:])
    return "".join(parts)


def key_blocks(text: str) -> Iterator[Span]:
    """Yield the spans of PEM, OpenSSH, PGP, OpenVPN and PuTTY private keys, even quoted, escaped or cut off."""
    if "-----BEGIN" in text:
        done = 0
        ends: dict[str, int] = {}
        for begin in _BEGIN.finditer(text):
            if begin.start() < done:
                continue
            done = _block_end(text, begin, ends)
            yield Span(begin.start(), done, "private-key")
    if "Private-" in text:
        for line in _PUTTY.finditer(text):
            body = _PUTTY_BODY.match(text, line.end())
            if body:
                yield Span(line.end(), _trim_right(text, body.end()), "private-key")


def _block_end(text: str, begin: re.Match[str], ends: dict[str, int]) -> int:
    """Return the end of a block; ``ends`` caches where each footer was last found, so that no search is repeated."""
    footer = f"-----END {begin.group(1)}{begin.group(2)}-----"
    limit = min(len(text), begin.end() + _MAX_BLOCK_CHARS)
    if ends.get(footer, -1) < begin.end():
        found = text.find(footer, begin.end())
        ends[footer] = found if found >= 0 else len(text)
    end = ends[footer]
    if end + len(footer) <= limit:
        return end + len(footer)
    body = _BODY.match(text, begin.end(), limit)
    return _trim_right(text, body.end() if body else begin.end())


def _trim_right(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end


# -- Secrets inside URLs: user info, query parameters, and the paths of webhooks.

_SCHEME = lazy_regex(r"://")
_USER_INFO = lazy_regex(r"([^\s/@:\"'<>?#\\]{0,128}):([^\s/\"'<>?#\\]{1,512})@|([^\s/@:\"'<>?#\\]{8,512})@")
#: A password that contains a slash or a similar character, before a host name with a dot.
_LOOSE_INFO = lazy_regex(r"([^\s/@:\"'<>]{1,64}+):(?!\d{1,5}[/?#])([^\s\"'<>@]{4,128}+)@(?=[\w-]++(?:\.[\w.-]|[:/]|$))")
_REST = lazy_regex(r"[^\s\"'<>`)\]]{0,4096}")
_PARAMETER = lazy_regex(
    r"(?i)[?&#;](?:[\w.-]{0,24}(?:key|token|sig|signature|secret|auth|passw(?:or)?d|pass|pwd|credential|jwt|session|"
    r"apikey|pat|code|otp|ticket|assertion|hmac|hash_?key))=([^&\s\"'<>#]{4,4096})"
)
_HOOK = lazy_regex(
    r"hook|ifttt\.com/trigger|hc-ping\.com|/bot\d|logic\.azure|/services/t|api/v\d/alerts|betteruptime|opsgenie|"
    r"pagerduty"
)
_SEGMENT = lazy_regex(r"[A-Za-z0-9_@.:~-]{6,}")


def link_spans(text: str) -> Iterator[Span]:
    """Yield the spans of passwords, tokens and webhook keys in URLs."""
    done = 0
    for scheme in _SCHEME.finditer(text):
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
        if _HOOK.search(rest.group().lower()):
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


# -- Tokens with a prefix that names their issuer, and tokens with a fixed format, such as JWT.

#: Prefix (a regular expression), kind, and the minimum length of the text after the prefix.
_PREFIXES: tuple[tuple[str, str, int], ...] = (
    (r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ABIA|ACCA)(?=[A-Z2-7]{16})", "aws-key", 16),
    (r"AIza", "gcp-key", 30),
    (r"ya29\.", "google-token", 20),
    (r"1//0", "google-token", 30),
    (r"GOCSPX-", "google-secret", 20),
    (r"gh[pousr]_", "github-token", 20),
    (r"github_pat_", "github-token", 20),
    (r"gl(?:pat|rt|dt|ptt|ft|imt|agent|oas|cbt|soat|ffct|wt)-", "gitlab-token", 16),
    (r"sk-ant-[a-z]++\d*+-", "anthropic-key", 20),
    (r"sk-(?:proj|svcacct|admin|None|or-v1|lf|litellm)-", "api-key", 16),
    (r"(?:sk|rk)_(?:live|test|prod)_", "stripe-key", 12),
    (r"whsec_", "webhook-secret", 16),
    (r"xox[abeoprs](?:\.xox[bp])?-", "slack-token", 12),
    (r"xapp-", "slack-token", 12),
    (r"hf_", "huggingface-token", 20),
    (r"npm_", "npm-token", 24),
    (r"pypi-AgE", "pypi-token", 20),
    (r"dckr_[a-z]{3}_", "docker-token", 16),
    (r"do[opr]_v1_", "digitalocean-token", 24),
    (r"HRKU-", "heroku-key", 20),
    (r"SG\.", "sendgrid-key", 30),
    (r"EAA[A-Z]", "meta-token", 40),
    (r"sntr(?:ys|yu)_", "sentry-token", 20),
    (r"hv[sbr]\.", "vault-token", 16),
    (r"FlyV1 |fm[12][ar]?_", "fly-token", 24),
    (r"AGE-SECRET-KEY-(?:PQ-)?1", "age-key", 40),
    (r"PMAK-", "postman-key", 24),
    (r"NRAK-|NRJS-|NRII-", "newrelic-key", 16),
    (r"lin_(?:api|oauth)_", "linear-key", 20),
    (r"sq0[a-z]{3}-|EAAA", "square-token", 20),
    (r"shp(?:at|ca|pa|ss|ua)_", "shopify-token", 20),
    (r"(?:ATATT3|ATCTT3|ATBB)", "atlassian-token", 20),
    (
        r"tvly-|pplx-|gsk_|xai-|r8_|fal_|nvapi-|jina_|voyage-|pa-|sk-|pk-|rk-|re_|sbp_|sb_secret_|secret_|ntn_|glsa_|"
        r"glc_|dapi|dp\.(?:pt|st|ct|sa)\.|pul-|pscale_(?:tkn|pw|oauth)_|figd_|phc_|phx_|rnd_|nfp_|vcp_|ops_|"
        r"tskey-[a-z]++-|key-|live_|test_|api_|token_|apify_api_|patr?_?[A-Za-z0-9]{0,14}\.|eyJhbGciOi|lsv2_[ps]t_|"
        r"sgp_|ctp_|dt0c01\.|ccipat_|bkua_|CFPAT-|LTAI|AKCp|cmVmdGtuO|rubygems_|oy2|cio[A-Za-z0-9]|dop_|akab-|"
        r"xkeysib-|mlsn\.|waka_|wandb_v1_|ATTA",
        "api-key",
        20,
    ),
)
_BY_PREFIX = lazy_regex("|".join(f"(?P<p{i}>{prefix})" for i, (prefix, _, _) in enumerate(_PREFIXES)))
#: Number of characters after a prefix by which a token is judged.
_JUDGED = 256
_KEY_UUID = lazy_regex(
    r"(?<![A-Za-z0-9])(?:sdk|mob|key|api|sk|pk|tok|token|secret|live|test|prod|"
    r"pat)[-_][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_JWT = lazy_regex(r"(?<![A-Za-z0-9_-])ey[JI][A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_=-]{8,}+(?:\.[A-Za-z0-9_+/=-]*+){0,3}")


def provider_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of tokens with a known format inside a run of token characters, `text[start:end]`."""
    at = start
    token_end = end
    while token_end > start and text[token_end - 1] == ".":
        token_end -= 1
    for key in _KEY_UUID.finditer(text, start, end):
        yield Span(key.start(), key.end(), "api-key")
    for jwt in _JWT.finditer(text, start, end):
        yield Span(jwt.start(), jwt.end(), "jwt")
        at = jwt.end()
    while at < end:
        match = _BY_PREFIX.search(text, at, end)
        if not match:
            return
        span = _named(text, match, start, token_end)
        if span:
            yield span
        at = span.end if span else match.start() + 1


@lru_cache_by_text(4096)
def may_be_issued(run: str) -> bool:
    """Return True if any part of a run of token characters begins like a token with a known format."""
    return bool(_BY_PREFIX.search(run) or _JWT.search(run) or _KEY_UUID.search(run))


def _named(text: str, match: re.Match[str], start: int, end: int) -> Span | None:
    if match.start() > start and text[match.start() - 1].isalnum():
        return None
    if match.start() == start and start and text[start - 1].isalnum():
        return None
    if text.endswith("pk_", start, match.start()):
        # A publishable key is meant to be shown.
        return None
    _, kind, least = _PREFIXES[int((match.lastgroup or "p0")[1:])]
    body = text[match.end() : min(end, match.end() + _JUDGED)]
    if len(body) < least or "EXAMPLE" in body or is_dummy(body):
        return None
    if kind == "api-key" and not looks_issued(body):
        return None
    return Span(match.start(), end, kind)


def looks_issued(body: str) -> bool:
    """Return True if the part after a short prefix looks generated: digits among the letters, no words."""
    from engram.redaction.values import total_bits

    return any(c.isdigit() for c in body[:24]) and total_bits(body) < 0
