"""Tokens whose prefix names their issuer, and tokens of a fixed format such as JWT."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from engram.redaction.placeholders import Span
from engram.redaction.values import is_dummy

#: Prefix (a regular expression), kind, and the minimum length of what follows.
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
_BY_PREFIX = re.compile("|".join(f"(?P<p{i}>{prefix})" for i, (prefix, _, _) in enumerate(_PREFIXES)))
#: What follows a prefix is judged by this many characters.
_JUDGED = 256
_KEY_UUID = re.compile(
    r"(?<![A-Za-z0-9])(?:sdk|mob|key|api|sk|pk|tok|token|secret|live|test|prod|"
    r"pat)[-_][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_JWT = re.compile(r"(?<![A-Za-z0-9_-])ey[JI][A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_=-]{8,}+(?:\.[A-Za-z0-9_+/=-]*+){0,3}")


def provider_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of tokens of a known format inside one run of token characters `text[start:end]`."""
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


@lru_cache(maxsize=4096)
def may_be_issued(run: str) -> bool:
    """Return whether anything in a run of token characters begins like a token of a known format."""
    return bool(_BY_PREFIX.search(run) or _JWT.search(run) or _KEY_UUID.search(run))


def _named(text: str, match: re.Match[str], start: int, end: int) -> Span | None:
    if match.start() > start and text[match.start() - 1].isalnum():
        return None
    if match.start() == start and start and text[start - 1].isalnum():
        return None
    if text.endswith("pk_", start, match.start()):
        # A publishable key is made to be shown.
        return None
    _, kind, least = _PREFIXES[int((match.lastgroup or "p0")[1:])]
    body = text[match.end() : min(end, match.end() + _JUDGED)]
    if len(body) < least or "EXAMPLE" in body or is_dummy(body):
        return None
    if kind == "api-key" and not looks_issued(body):
        return None
    return Span(match.start(), end, kind)


def looks_issued(body: str) -> bool:
    """Return whether the part after a short prefix looks generated: digits among the letters, no words."""
    from engram.redaction.values import total_bits

    return any(c.isdigit() for c in body[:24]) and total_bits(body) < 0
