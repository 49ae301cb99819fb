"""A language model's server on the loopback that answers as it is told, byte for byte, and keeps what it was sent."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

#: A raw HTTP answer for the body of a request, or None: close without one.
Reply = Callable[[dict[str, Any]], bytes | None]


class FakeLanguageModel:
    """Answers every request by ``reply`` and closes the connection."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        #: Everything that came over the wire, a request an item.
        self.received: list[bytes] = []
        #: Set: answers are sent a byte at a time, so many seconds apart.
        self.drip_seconds = 0.0
        #: After an answer the connection stays open, and nothing more comes.
        self.is_silent = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def base_url(self) -> str:
        """What goes into the setting ``llm_base_url``."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def close(self) -> None:
        self._is_closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while not self._is_closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                if (data := _read_request(connection)) is None:
                    return
                self.received.append(data)
                answer = self.reply(json.loads(data.partition(b"\r\n\r\n")[2])) or b""
                if not self.drip_seconds:
                    connection.sendall(answer)
                    if self.is_silent:
                        self._is_closing.wait()
                    return
                for byte in answer:
                    connection.sendall(bytes([byte]))
                    if self._is_closing.wait(self.drip_seconds):
                        return
            except OSError:
                return


def _read_request(connection: socket.socket) -> bytes | None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65_536)):
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(one.split(b":")[1]) for one in head.split(b"\r\n") if one.lower().startswith(b"content-length")), 0
    )
    while len(body) < length:
        if not (more := connection.recv(65_536)):
            return None
        body += more
    return head + b"\r\n\r\n" + body


def http(body: bytes | str, status: str = "200 OK", *, kind: str = "application/json", **headers: str) -> bytes:
    """A raw HTTP answer."""
    raw = body.encode() if isinstance(body, str) else body
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(raw)}", "Connection: close"]
    head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*head, "", ""]).encode() + raw


def chat(content: Any, *, tokens: tuple[int, int] = (900, 60)) -> bytes:
    """A whole answer of a chat server; ``content`` is dumped where it is no text."""
    text = content if isinstance(content, str) or content is None else json.dumps(content)
    return http(
        json.dumps(
            {
                "id": "x",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
                "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
            }
        )
    )


def responses_body(text: str | None, *, tokens: tuple[int, int] = (900, 60)) -> dict[str, Any]:
    """A whole answer of OpenAI's Responses interface; None is a refusal."""
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    if text is None:
        part = {"type": "refusal", "refusal": "I cannot help with that."}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-4.1-nano",
        "status": "completed",
        "output": [{"type": "message", "id": "m1", "status": "completed", "role": "assistant", "content": [part]}],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": tokens[0],
            "output_tokens": tokens[1],
            "total_tokens": sum(tokens),
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def memory(summary: str, *evidence: str, **changes: Any) -> dict[str, Any]:
    """One memory as the model proposes it."""
    return {
        "kind": "decision",
        "summary": summary,
        "content": summary,
        "entities": [],
        "importance": "normal",
        "scope": "project",
        "evidence": list(evidence) or ["e1"],
        **changes,
    }


def answer(*memories: dict[str, Any], rolling_summary: str = "") -> dict[str, Any]:
    """The model's answer."""
    return {"memories": list(memories), "rolling_summary": rolling_summary}
