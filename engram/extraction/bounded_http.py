"""An HTTP client with bounds on each wait, on the whole call and on the size of the answer."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

#: Maximum size of an answer, in bytes.
MAX_ANSWER_BYTES = 8_000_000
#: Maximum duration of a call, in seconds, whatever the settings say.
MAX_CALL_SECONDS = 60.0


def make_client(
    wait_seconds: float, total_seconds: float, transport: httpx2.BaseTransport | None = None
) -> httpx2.Client:
    """Return a client that follows no redirects and stops reading an endless answer.

    Args:
        wait_seconds: maximum wait for a connection, and for the next bytes.
        total_seconds: maximum time from the answer's first byte to its last; ``ending`` bounds the whole call.
        transport: for tests; None uses the network and the proxies of the environment.
    """
    import httpx2

    def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _bounded_stream(response.stream, total_seconds)

    return httpx2.Client(
        timeout=httpx2.Timeout(wait_seconds),
        follow_redirects=False,
        transport=transport,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [bound]},
    )


def _bounded_stream(inner: httpx2.SyncByteStream, total_seconds: float) -> httpx2.SyncByteStream:
    import httpx2

    class Bounded(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            size, until = 0, time.monotonic() + total_seconds
            for chunk in inner:
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    raise httpx2.RemoteProtocolError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
                if time.monotonic() > until:
                    raise httpx2.ReadTimeout(f"the answer took longer than {total_seconds:g} s")
                yield chunk

        def close(self) -> None:
            inner.close()

    return Bounded()


@contextlib.contextmanager
def ending(client: httpx2.Client, total_seconds: float) -> Iterator[threading.Event]:
    """Close the client's connections if the block takes longer than ``total_seconds``; the event is then set.

    No single wait ends a server that sends its headers a byte at a time; this does.
    """
    has_ended = threading.Event()

    def end() -> None:
        has_ended.set()
        with contextlib.suppress(OSError, RuntimeError):
            client.close()

    watchdog = threading.Timer(total_seconds, end)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield has_ended
    finally:
        watchdog.cancel()
        watchdog.join()
