"""engram.sock: one JSON object in, bytes out; a hook's payload gets its complete answer or nothing."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from engram.errors import BadRequest, BrokenDatabase, EngramError
from engram.recollection.searching import NO_PROJECT
from engram.search.hits import PublicHit
from engram.search.question.query import MAX_HITS, MAX_QUERY_CHARS, Query
from engram.socketpath import bind_at
from engram.tasks.embed import embed
from engram.tasks.runtime import Runtime
from engram.worker.client import WorkerStatus
from engram.worker.reception import Client, Reception
from engram.worker.request_queue import RequestQueue
from engram.worker.rss import raise_file_limit, rss_mb

logger = logging.getLogger(__name__)

#: Threads that answer hooks, and threads that answer everybody else.
HOOK_THREADS = 4
OTHER_THREADS = 4
#: Complete requests that wait for a thread at most, of each kind; beyond, the one that waits longest is dropped.
MAX_WAITING = 64
#: A request that waited longer is not answered, in seconds. A hook has left by then.
HOOK_SECONDS = 1.0
OTHER_SECONDS = 30.0
#: How long the end waits for answers that are being made, in seconds.
CLOSE_SECONDS = 5.0
#: Texts that are embedded before it is looked again whether anybody waits for them.
EMBED_AT_ONCE = 4
#: Texts of one ``embed`` request at most.
MAX_TEXTS = 256


class RecallServer:
    """Answers on engram.sock in threads of its own. Only processes of the same user are answered."""

    def __init__(self, runtime: Runtime) -> None:
        """Nothing is opened before ``start``."""
        self._runtime = runtime
        self._path = runtime.settings.places.recall_socket
        self._reception: Reception | None = None
        self._is_closing = threading.Event()
        #: Hooks have threads of their own: no long question of anybody else keeps a prompt waiting.
        self._hooks: RequestQueue = RequestQueue(MAX_WAITING)
        self._others: RequestQueue = RequestQueue(MAX_WAITING)
        self._threads: list[threading.Thread] = []
        self._wanted = threading.local()

    def start(self) -> RecallServer:
        """Open the socket, replacing what is there, and answer from now on. Call with the worker's lock held."""
        raise_file_limit()
        for name, requests, number in (("hook", self._hooks, HOOK_THREADS), ("recall", self._others, OTHER_THREADS)):
            for place in range(number):
                thread = threading.Thread(target=self._serve, args=(requests,), name=f"{name}-{place}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._reception = Reception(self._open(), self._sort)
        self._reception.start()
        return self

    def _open(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        bind_at(listener, self._path)
        listener.listen(1)
        return listener

    def renew(self) -> None:
        """Open the socket again where somebody removed or replaced it."""
        if self._reception is not None and not self._is_closing.is_set() and not self._path.is_socket():
            self._reception.replace_listener(self._open())

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Answer nobody any more and remove the socket; False where a thread is still at an answer after that time.

        The process must not end its interpreter then: a thread that comes back from native code would abort it.
        """
        self._is_closing.set()
        with contextlib.suppress(OSError):
            self._path.unlink()
        if self._reception is not None:
            self._reception.close(seconds)
        for requests in (self._hooks, self._others):
            requests.close()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _sort(self, client: Client, request: bytes | None) -> None:
        """Put a complete request where the threads find it; called by the thread that reads all clients."""
        is_hook = request is not None and b'"hook_event_name"' in request
        dropped = (self._hooks if is_hook else self._others).put(client, request)
        if dropped is not None:
            dropped[0].connection.close()

    def _serve(self, requests: RequestQueue) -> None:
        """One thread: answer, again."""
        while (following := requests.take()) is not None:
            client, request = following
            try:
                self._converse(client, request)
            except Exception as error:
                logger.warning("action=converse failed=%s", type(error).__name__, exc_info=error)
                client.connection.close()

    def _converse(self, client: Client, request: bytes | None) -> None:
        """Answer one complete request, unless nobody waits for the answer any more."""
        is_hook = request is not None and b'"hook_event_name"' in request
        limit = HOOK_SECONDS if is_hook else OTHER_SECONDS
        if client.is_gone or time.monotonic() - client.complete_at > limit:
            client.connection.close()
            self._note(request, "never_asked")
            return
        self._wanted.client = client
        answer = self.answer(request)
        try:
            sent = client.connection.send(answer) if answer else 0
        except BlockingIOError:
            sent = 0
        except OSError as error:
            logger.info("action=send_answer error=%s", error)
            client.connection.close()
            if answer:
                self._note(request, "came_too_late")
            return
        if sent < len(answer) and self._reception is not None and not self._is_closing.is_set():
            client.answer = memoryview(answer)[sent:]
            self._reception.send_rest(client)
        else:
            client.connection.close()
        self._write_down()

    def _write_down(self) -> None:
        """What hooks were given goes into the ledger after it was sent: no hook waits for the write lock."""
        try:
            self._runtime.recollection.write_down()
        except Exception as error:
            logger.warning("action=write_down failed=%s", type(error).__name__, exc_info=error)

    def _note(self, request: bytes | None, what: str) -> None:
        """A hook was gone, before its payload was looked at or before the answer came: it was shown nothing."""
        with contextlib.suppress(EngramError, ValueError, RecursionError):
            payload = json.loads(request or b"{}")
            if isinstance(payload, dict) and "hook_event_name" in payload:
                recollection = self._runtime.recollection
                (recollection.never_asked if what == "never_asked" else recollection.came_too_late)(payload)

    def answer(self, request: bytes | None) -> bytes:
        """The bytes that answer a request; b"" for silence. Never raises."""
        try:
            found = _parse(request)
            if "hook_event_name" in found:
                return self._answer_hook(found)
            return json.dumps(self._answer_op(found)).encode()
        except EngramError as error:
            self._look_at(error)
            return json.dumps({"error": str(error)}).encode()
        except Exception as error:
            logger.warning("action=answer failed=%s", type(error).__name__, exc_info=error)
            return json.dumps({"error": f"{type(error).__name__}: {str(error)[:200]}"}).encode()

    def _answer_hook(self, payload: Mapping[str, Any]) -> bytes:
        try:
            return self._runtime.recollection.answer_hook(payload)
        except Exception as error:
            self._look_at(error)
            logger.warning("action=answer_hook failed=%s", type(error).__name__, exc_info=error)
            return b""

    def _look_at(self, error: Exception) -> None:
        """Damage that a question meets is the worker's business, too."""
        if isinstance(error, BrokenDatabase):
            self._runtime.is_damaged.set()

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
        if not isinstance(texts, list) or len(texts) > MAX_TEXTS or not all(isinstance(t, str) for t in texts):
            raise BadRequest(f"texts must be a list of at most {MAX_TEXTS} texts")
        rows: list[Any] = []
        for start in range(0, len(texts), EMBED_AT_ONCE):
            self._stop_if_unwanted()
            some = texts[start : start + EMBED_AT_ONCE]
            if request.get("kind") == "query":
                rows += [embedder.embed_query(text) for text in some]
            else:
                rows += list(embedder.embed(some))
        return {"model": embedder.model_id, "vectors": [[round(float(x), 7) for x in row] for row in rows]}

    def _stop_if_unwanted(self) -> None:
        """Raise EngramError where the worker stops, or the client of this thread has left."""
        client: Client | None = getattr(self._wanted, "client", None)
        if self._is_closing.is_set() or (client is not None and client.is_gone):
            raise EngramError("nobody waits for this answer any more")

    def _recall(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._runtime.catch_up()
        return {"hits": [PublicHit.of(hit).to_json() for hit in self._runtime.searcher.recall(_query(request))]}

    def _search(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._runtime.catch_up()
        return {"hits": [PublicHit.of(hit).to_json() for hit in self._runtime.searcher.search(_query(request))]}

    def _status(self, _: Mapping[str, Any]) -> dict[str, Any]:
        runtime = self._runtime
        status = WorkerStatus(
            pid=os.getpid(),
            rss_mb=rss_mb(),
            uptime_seconds=round(runtime.store.clock.steady_seconds() - runtime.started_seconds, 1),
            model=runtime.embedder.model_id if runtime.embedder else None,
            runtime=runtime.embedder.runtime if runtime.embedder else "text only",
            reason=runtime.embedder.reason if runtime.embedder else "the embedding model is not loaded",
            index_mb=runtime.index_mb(),
            is_busy=runtime.is_busy,
            waiting=runtime.queued,
        )
        return status.to_json()

    def _wake(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Something was written by hand: bring the vectors up to date and make those that are missing."""
        self._runtime.refresh_index()
        embed()
        return {"ok": True}


def _parse(request: bytes | None) -> dict[str, Any]:
    """The object of a request. Raises BadRequest."""
    try:
        found = None if request is None else json.loads(request)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadRequest("a request is one JSON object of at most 1 MB")
    return found


def _query(request: Mapping[str, Any]) -> Query:
    """The question of a request. Raises BadRequest."""
    text, limit, project_id = request.get("query"), request.get("limit", 5), request.get("project_id")
    if not isinstance(text, str):
        raise BadRequest("query must be a text")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_HITS:
        raise BadRequest(f"limit must be a number from 1 to {MAX_HITS}")
    if project_id is not None and (not isinstance(project_id, int) or isinstance(project_id, bool)):
        raise BadRequest("project_id must be a number")
    if project_id is None and request.get("all_projects") is not True:
        # Whoever names no project gets what belongs to none: only a person's command asks for everything.
        project_id = NO_PROJECT
    files = request.get("files", [])
    names = tuple(str(one) for one in files[:50]) if isinstance(files, list) else ()
    now_ms = request.get("now_ms")
    return Query(
        text=text[:MAX_QUERY_CHARS], project_id=project_id, limit=limit, files=names, session_id=str(request.get("session_id", "")),
        with_global=bool(request.get("with_global", True)), now_ms=now_ms if isinstance(now_ms, int) else None,
    )  # fmt: skip
