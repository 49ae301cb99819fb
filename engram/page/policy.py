"""The headers of every answer: what the browser may load, run, frame and keep."""

from __future__ import annotations

from collections.abc import Mapping

#: Directive of the Content-Security-Policy → its value; ``{nonce}`` is another one in every answer.
DIRECTIVES: Mapping[str, str] = {
    "default-src": "'none'",
    "script-src": "'self' 'nonce-{nonce}'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "htmx",
}

#: The other headers.
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def security_headers(
    nonce: str, *, directives: Mapping[str, str] = DIRECTIVES, headers: Mapping[str, str] = HEADERS
) -> dict[str, str]:
    """Return the headers of an answer whose scripts have this nonce."""
    policy = "; ".join(f"{name} {value.format(nonce=nonce)}" for name, value in directives.items())
    return {"Content-Security-Policy": policy, **headers} if policy else dict(headers)
