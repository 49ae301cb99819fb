"""engram.sock: one JSON object in, bytes out; a hook's payload gets its complete answer or nothing."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from engram.errors import BadRequest, EngramError
from engram.search.hits import hit_to_json
from engram.search.query import Query
from engram.socketpath import bind_at
from engram.tasks.embed import embed
from engram.tasks.rss import rss_mb
from engram.tasks.runtime import Runtime

logger = logging.getLogger(__name__)

#: Longest request, in bytes.
REQUEST_BYTES = 1_000_000
#: How long a client may be silent, in seconds, and how long a request may take to come in all.
IDLE_SECONDS = 10.0
WHOLE_SECONDS = 30.0
#: Requests answered at one time; further ones wait to be accepted.
THREADS = 8
#: Texts of one ``embed`` request at most.
MOST_TEXTS = 256
#: Hits of one answer at most.
MOST_HITS = 200
#: Longest query that is searched for, in characters; the rest is not read.
QUERY_CHARS = 4_000
#: Longest wait of a thread before it looks whether the socket is still the same, in seconds.
LOOK_SECONDS = 5
_BACKLOG = 128


class RecallServer:
    """Listens on engram.sock in threads of its own. Only processes of the same user are answered."""

    def __init__(self, runtime: Runtime) -> None:
        """Nothing is opened before ``start``."""
        self._runtime = runtime
        self._path = runtime.settings.places.recall_socket
        self._listener: socket.socket | None = None
        self._is_closing = threading.Event()
        self._accepting = threading.Lock()

    def start(self) -> RecallServer:
        """Open the socket, replacing what is there, and answer from now on. Call with the worker's lock held."""
        self._listener = self._open()
        for number in range(THREADS):
            threading.Thread(target=self._serve, name=f"recall-{number}", daemon=True).start()
        return self

    def _open(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        bind_at(listener, self._path)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        return listener

    def renew(self) -> None:
        """Open the socket again where somebody removed or replaced it."""
        if not self._is_closing.is_set() and not self._path.is_socket():
            old, self._listener = self._listener, self._open()
            if old is not None:
                _end(old)

    def close(self) -> None:
        """Answer nobody any more and remove the socket."""
        self._is_closing.set()
        with contextlib.suppress(OSError):
            self._path.unlink()
        if self._listener is not None:
            _end(self._listener)

    def _serve(self) -> None:
        """One thread: accept, answer, again."""
        while not self._is_closing.is_set():
            try:
                connection = self._accept()
            except (OSError, ValueError):
                self._is_closing.wait(0.05)
                continue
            if connection is not None:
                with connection:
                    self._converse(connection)

    def _accept(self) -> socket.socket | None:
        """The next client; None where none came for a while. One thread waits at a time: a client wakes one alone."""
        with self._accepting:
            listener = self._listener
            if listener is None or self._is_closing.is_set():
                return None
            poller = select.poll()
            poller.register(listener, select.POLLIN)
            return listener.accept()[0] if poller.poll(LOOK_SECONDS * 1000) else None

    def _converse(self, connection: socket.socket) -> None:
        try:
            connection.setblocking(True)
            connection.settimeout(IDLE_SECONDS)
            if not _is_same_user(connection):
                return
            request = _read(connection)
        except OSError as error:
            logger.info("action=read_request error=%s", error)
            return
        answer = self.answer(request)
        try:
            connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            logger.info("action=send_answer error=%s", error)
            if answer:
                self._note_too_late(request)
            return
        self._write_down()

    def _write_down(self) -> None:
        """What hooks were given goes into the ledger after it was sent: no hook waits for the write lock."""
        try:
            self._runtime.recollection.write_down()
        except Exception as error:
            logger.warning("action=write_down failed=%s", type(error).__name__, exc_info=error)

    def _note_too_late(self, request: bytes | None) -> None:
        """The client was gone before its answer came: what a hook did not get was not shown."""
        with contextlib.suppress(EngramError, ValueError):
            payload = json.loads(request or b"{}")
            if isinstance(payload, dict) and "hook_event_name" in payload:
                self._runtime.recollection.came_too_late(payload)

    def answer(self, request: bytes | None) -> bytes:
        """The bytes that answer a request; b"" for silence. Never raises."""
        try:
            found = None if request is None else json.loads(request)
            if not isinstance(found, dict):
                raise BadRequest("a request is one JSON object of at most 1 MB")
            if "hook_event_name" in found:
                return self._answer_hook(found)
            return json.dumps(self._answer_op(found)).encode()
        except EngramError as error:
            return json.dumps({"error": str(error)}).encode()
        except Exception as error:
            logger.warning("action=answer failed=%s", type(error).__name__, exc_info=error)
            return json.dumps({"error": f"{type(error).__name__}: {str(error)[:200]}"}).encode()

    def _answer_hook(self, payload: Mapping[str, Any]) -> bytes:
        try:
            return self._runtime.recollection.answer_hook(payload)
        except Exception as error:
            logger.warning("action=answer_hook failed=%s", type(error).__name__, exc_info=error)
            return b""

    def _answer_op(self, request: Mapping[str, Any]) -> dict[str, Any]:
        operations: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "embed": self._embed, "recall": self._recall, "search": self._search, "status": self._status,
            "wake": self._wake,
        }  # fmt: skip
        operation = operations.get(str(request.get("op")))
        if operation is None:
            raise BadRequest(f"op must be one of {', '.join(sorted(operations))}")
        return operation(request)

    def _embed(self, request: Mapping[str, Any]) -> dict[str, Any]:
        embedder = self._runtime.embedder
        if embedder is None:
            raise EngramError("the embedding model is not at hand")
        texts = request.get("texts")
        if not isinstance(texts, list) or len(texts) > MOST_TEXTS or not all(isinstance(t, str) for t in texts):
            raise BadRequest(f"texts must be a list of at most {MOST_TEXTS} texts")
        if request.get("kind") == "query":
            rows = [embedder.embed_query(text) for text in texts]
        else:
            rows = list(embedder.embed(texts)) if texts else []
        return {"model": embedder.model_id, "vectors": [[round(float(x), 7) for x in row] for row in rows]}

    def _recall(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._runtime.catch_up()
        return {"hits": [hit_to_json(hit) for hit in self._runtime.searcher.recall(_query(request))]}

    def _search(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._runtime.catch_up()
        return {"hits": [hit_to_json(hit) for hit in self._runtime.searcher.search(_query(request))]}

    def _status(self, _: Mapping[str, Any]) -> dict[str, Any]:
        runtime = self._runtime
        return {
            "pid": os.getpid(),
            "rss_mb": rss_mb(),
            "uptime_seconds": round(runtime.store.clock.steady_seconds() - runtime.started_seconds, 1),
            "model": runtime.embedder.model_id if runtime.embedder else None,
            "runtime": runtime.embedder.runtime if runtime.embedder else "text alone",
            "reason": runtime.embedder.reason if runtime.embedder else "the embedding model is not at hand",
            "index_mb": runtime.index_mb(),
            "is_busy": runtime.is_busy,
            "waiting": runtime.waiting,
        }

    def _wake(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Something was written by hand: bring the vectors up to date and make those that are missing."""
        self._runtime.refresh_index()
        embed()
        return {"ok": True}


def _end(listener: socket.socket) -> None:
    """Close a listening socket and wake the threads that wait for it."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _query(request: Mapping[str, Any]) -> Query:
    """The question of a request. Raises BadRequest."""
    text, limit, project_id = request.get("query"), request.get("limit", 5), request.get("project_id")
    if not isinstance(text, str):
        raise BadRequest("query must be a text")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_HITS:
        raise BadRequest(f"limit must be a number from 1 to {MOST_HITS}")
    if project_id is not None and not isinstance(project_id, int):
        raise BadRequest("project_id must be a number")
    files = request.get("files", [])
    names = tuple(str(one) for one in files[:50]) if isinstance(files, list) else ()
    now_ms = request.get("now_ms")
    return Query(
        text=text[:QUERY_CHARS], project_id=project_id, limit=limit, files=names, session_id=str(request.get("session_id", "")),
        with_global=bool(request.get("with_global", True)), now_ms=now_ms if isinstance(now_ms, int) else None,
    )  # fmt: skip


def _read(connection: socket.socket) -> bytes | None:
    """Everything the client sends; None where it is too long. Raises OSError where it takes too long."""
    until = time.monotonic() + WHOLE_SECONDS
    parts: list[bytes] = []
    size = 0
    while chunk := connection.recv(65_536):
        size += len(chunk)
        if size > REQUEST_BYTES:
            return None
        if time.monotonic() > until:
            raise TimeoutError("the request took too long")
        parts.append(chunk)
    return b"".join(parts)


def _is_same_user(connection: socket.socket) -> bool:
    """False where the system says that somebody else is at the other end."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            uid = struct.unpack("3i", data)[1]
        elif hasattr(socket, "LOCAL_PEERCRED"):
            data = connection.getsockopt(0, socket.LOCAL_PEERCRED, 76)
            uid = struct.unpack_from("II", data)[1]
        else:
            return True
    except (OSError, struct.error):
        return True
    return bool(uid == os.geteuid())
