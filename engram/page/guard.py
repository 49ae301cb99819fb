"""The guard in front of every route, which checks requests and adds security headers to responses."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.page.page_access import CHECKS, Access, AccessDenied, Check, RequestHead

# -- The headers of every response: what the browser may load, run, frame and cache.

#: Directive of the Content-Security-Policy → its value; ``{nonce}`` differs in every response.
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
    """Return the headers of a response whose scripts have this nonce."""
    policy = "; ".join(f"{name} {value.format(nonce=nonce)}" for name, value in directives.items())
    return {"Content-Security-Policy": policy, **headers} if policy else dict(headers)


#: Bytes of randomness in a nonce.
NONCE_BYTES = 16


class Guard:
    """Forwards a request only if it passes every check. Logs nothing, because addresses contain secrets."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        *,
        checks: Sequence[Check] = CHECKS,
        headers_of: Callable[[str], Mapping[str, str]] = security_headers,
    ) -> None:
        """Guard ``app``.

        Args:
            checks: the checks, in order; the first refusal decides. Only tests pass others.
            headers_of: returns the security headers for a nonce. Only tests pass another function.
        """
        self._app = app
        self._access = access
        self._checks = tuple(checks)
        self._headers_of = headers_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Connections other than HTTP are closed without a response."""
        if scope["type"] != "http":
            return
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        headers = self._headers_of(nonce)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                own.update(headers)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            answer = PlainTextResponse(f"Engram: {refusal.reason}.\n", status_code=refusal.status)
            await answer(scope, receive, send_with_headers)
            return
        scope.setdefault("state", {})["nonce"] = nonce
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> AccessDenied | None:
        head = _head_of(scope)
        for check in self._checks:
            refusal = check(self._access, head)
            if refusal is not None:
                return refusal
        return None


def _head_of(scope: Scope) -> RequestHead:
    """Return a request without its body. A header that occurs twice counts as empty."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        headers[key] = "" if key in headers else value.decode("latin-1")
    return RequestHead(scope["method"], scope["path"], headers)
