"""A web server of somebody else on this machine: it serves one text and remembers who asked for what."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Attacker:
    """The server. ``html`` is what it serves at every path."""

    port: int
    html: str = ""
    #: Path and cookies of every request.
    asked: list[tuple[str, str]] = field(default_factory=list)

    def address(self, host: str = "127.0.0.1") -> str:
        """Its address under a name; 127.0.0.1 is the same site as the page, evil.test another one."""
        return f"http://{host}:{self.port}/"


@contextlib.contextmanager
def serve_attacker() -> Iterator[Attacker]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            attacker.asked.append((self.path, self.headers.get("Cookie", "")))
            body = attacker.html.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    attacker = Attacker(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield attacker
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
