"""Serve engram.sock, with separate threads for hooks, and guard it against other programs on the same socket.

The earlier Engram is such a program: it uses the same folder and removes any socket that it finds. Hooks would then
connect to it and, without an error, get no memories.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engram.errors import EngramError, StoreError
from engram.models.engine.database import file_identity
from engram.models.engine.transaction import Store
from engram.models.shown.usage import count_without_vector, note_late
from engram.models.work.task_runs import note_failure, note_success
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.setup.old_engram.old_processes import Listener, find_listener, find_process
from engram.system.lazy_regex import lazy_regex
from engram.system.process_limits import raise_file_limit
from engram.tasks.runtime import Runtime
from engram.worker.hook_answers import Answers, Vaults, is_hook_payload, parse_request
from engram.worker.mcp_sessions import McpSessions
from engram.worker.request_reader import Client, Reception, RequestQueue, open_listener
from engram.worker.worker_client import TAKES_SIGNS

logger = logging.getLogger(__name__)

#: Name of the stage under which another program on the socket is reported.
STAGE = "socket"


class SocketGuard:
    """Detects another program on the worker's socket. The worker's lock already excludes other workers."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._own: tuple[int, int] | None = None
        self._rival: Listener | None = None

    def check(self) -> bool:
        """Report any other program that is listening; return True if this worker must open or reopen the socket."""
        identity = file_identity(self._path) if self._path.is_socket() else None
        if identity is not None and identity == self._own:
            self._clear_report()
            return False
        rival = None if identity is None else find_listener(self._path)
        if rival is not None and rival.pid != os.getpid():
            self._report(rival)
        return True

    def opened(self) -> None:
        """Record the socket that this worker has just opened."""
        self._own = file_identity(self._path)

    def _report(self, rival: Listener) -> None:
        self._rival = rival
        text = redact(
            f"{rival.described} also uses engram.sock, and this worker took the socket back. Two programs must not "
            "share a memory folder: stop it. `engram install` retires the earlier Engram"
        )
        logger.warning("action=watch_socket rival_pid=%d", rival.pid)
        with contextlib.suppress(StoreError):
            note_failure(self._store, STAGE, text)

    def _clear_report(self) -> None:
        """Clear the report once the other program has exited."""
        if self._rival is not None and self._rival.pid and find_process(self._rival.pid) is None:
            self._rival = None
            with contextlib.suppress(StoreError):
                note_success(self._store, STAGE)


# -- Answer complete requests in threads, with separate threads for hooks.

#: Number of threads that answer hooks, and of threads that answer all other clients.
HOOK_THREADS = 4
OTHER_THREADS = 4
#: Maximum number of complete requests of each kind waiting for a thread; above that, the oldest is dropped.
MAX_WAITING = 64
#: A request that has waited for longer than this, in seconds, is not answered, because its hook has exited by then.
MAX_HOOK_WAIT_SECONDS = 1.5
MAX_OTHER_WAIT_SECONDS = 30.0
#: How long to wait for answers in progress when stopping, in seconds.
CLOSE_SECONDS = 5.0
#: How long a hook waits without a sign of life, in seconds.
UNSIGNED_WAIT_SECONDS = 0.2
#: After this many of a session's prompts have waited in vain, its prompts get no more signs of life.
MAX_VAIN_WAITS = 2
#: Load per processor above which the machine counts as busy.
BUSY_LOAD = 2.0
#: Maximum number of sessions for which futile waits are counted.
MAX_SESSIONS = 256
#: How long any other client is sent signs of life, in seconds; most give up sooner.
MAX_SIGNS_SECONDS = 60.0
#: Patterns that match a prompt and its session.
_PROMPT = lazy_regex(rb'"hook_event_name"\s*:\s*"UserPromptSubmit"')
_SESSION = lazy_regex(rb'"session_id"\s*:\s*"([^"\\]{1,100})"')


class Patience:
    """Decides how long each session's prompts may wait. Thread-safe."""

    def __init__(self, seconds: float) -> None:
        """``seconds``: how long a prompt may wait while its answer is being prepared."""
        self._seconds = seconds
        self._vain: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, request: bytes) -> float:
        """Return how long signs of life may keep the hook of a request waiting, in seconds; 0 to send none."""
        session = self._session_of(request)
        if session is None or self._seconds <= UNSIGNED_WAIT_SECONDS:
            return 0.0
        with self._lock:
            return self._seconds if self._vain.get(session, 0) < MAX_VAIN_WAITS else 0.0

    def note(self, request: bytes | None, waited_seconds: float, *, was_shown: bool) -> None:
        session = None if request is None else self._session_of(request)
        if session is None:
            return
        with self._lock:
            if was_shown:
                self._vain.pop(session, None)
            elif waited_seconds > UNSIGNED_WAIT_SECONDS:
                self._vain[session] = self._vain.get(session, 0) + 1
                self._vain.move_to_end(session)
                while len(self._vain) > MAX_SESSIONS:
                    self._vain.popitem(last=False)

    @staticmethod
    def _session_of(request: bytes) -> bytes | None:
        """Return the session of a prompt if its hook accepts signs of life; None for any other request."""
        if not request.startswith(TAKES_SIGNS) or not _PROMPT.search(request):
            return None
        session = _SESSION.search(request)
        return session[1] if session else None


class RecallServer:
    """Answers processes of the same user on engram.sock, in its own threads."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._path = runtime.settings.places.recall_socket
        self.vaults = Vaults(runtime)
        self._answers = Answers(runtime, self.vaults)
        self._sessions = McpSessions(runtime, self._answers, self.vaults)
        self._guard = SocketGuard(runtime.store, self._path)
        self._reception: Reception | None = None
        self._is_closing = threading.Event()
        # Hooks have their own threads, so that no other client's long question delays a prompt.
        self._hooks = RequestQueue(MAX_WAITING)
        self._others = RequestQueue(MAX_WAITING)
        self._patience = Patience(runtime.settings.prompt_wait_seconds)
        self._threads: list[threading.Thread] = []

    def start(self) -> RecallServer:
        """Open the socket, replacing any existing one, and start answering. Call with the worker's lock held."""
        raise_file_limit()
        with contextlib.suppress(StoreError):
            note_success(self._runtime.store, STAGE)
        self._guard.check()
        self._start_threads("hook", HOOK_THREADS, self._hooks, MAX_HOOK_WAIT_SECONDS)
        self._start_threads("recall", OTHER_THREADS, self._others, MAX_OTHER_WAIT_SECONDS)
        self._reception = Reception(self._open(), self._queue_request)
        self._reception.start()
        with contextlib.suppress(OSError):
            self._runtime.settings.places.worker_coming.unlink()
        self._sessions.start()
        return self

    def _start_threads(self, name: str, number: int, requests: RequestQueue, max_wait_seconds: float) -> None:
        for place in range(number):
            thread = threading.Thread(
                target=self._serve, args=(requests, max_wait_seconds), name=f"{name}-{place}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    @property
    def longest_wait_seconds(self) -> float:
        """How long the oldest request has waited for a thread, in seconds; 0 if no request is waiting."""
        times = [requests.oldest_at for requests in (self._hooks, self._others)]
        return max((time.monotonic() - at for at in times if at is not None), default=0.0)

    def renew(self) -> None:
        """Reopen the socket if it has been removed or replaced; report another program that listens there."""
        if self._reception is not None and not self._is_closing.is_set() and self._guard.check():
            self._reception.replace_listener(self._open())
        if not self._is_closing.is_set():
            self._sessions.renew()

    def _open(self) -> socket.socket:
        listener = open_listener(self._path)
        self._guard.opened()
        return listener

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Stop answering and remove the socket; return False if an answer is still in progress after ``seconds``.

        The process must then exit without shutting down the interpreter, because a thread in native code would abort
        it.
        """
        self._is_closing.set()
        with contextlib.suppress(OSError):
            self._path.unlink()
        have_sessions_ended = self._sessions.close(seconds)
        if self._reception is not None:
            self._reception.close(seconds)
        for requests in (self._hooks, self._others):
            requests.close()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        has_ended = have_sessions_ended and not any(thread.is_alive() for thread in self._threads)
        if has_ended:
            self.vaults.close()
        return has_ended

    def answer(self, request: bytes | None) -> bytes:
        """Return the response to a request; b"" if it needs none. Never raises an exception."""
        return self._answers.answer(request)

    def _queue_request(self, client: Client, request: bytes | None) -> None:
        """Queue a complete request without parsing it, because this runs in the thread that serves all clients."""
        looks_like_hook = request is not None and b'"hook_event_name"' in request
        if request is not None and request.startswith(TAKES_SIGNS) and self._reception is not None:
            seconds = self._patience.of(request) if looks_like_hook else MAX_SIGNS_SECONDS
            if seconds:
                self._reception.show_life(client, seconds)
        dropped = (self._hooks if looks_like_hook else self._others).put(client, request)
        if dropped is not None:
            dropped[0].connection.close()

    def _serve(self, requests: RequestQueue, max_wait_seconds: float) -> None:
        """Answer requests until the queue is closed. Every answering thread runs this loop."""
        while (taken := requests.take()) is not None:
            client, request = taken
            try:
                self._answer_client(client, request, max_wait_seconds)
            except Exception as error:
                logger.warning("action=answer_client failed=%s", type(error).__name__, exc_info=error)
                client.connection.close()

    def _answer_client(self, client: Client, request: bytes | None, max_wait_seconds: float) -> None:
        """Answer one complete request, unless its client has disconnected or waited too long."""
        waited_seconds = time.monotonic() - client.complete_at
        if client.is_gone or waited_seconds > max_wait_seconds:
            client.connection.close()
            self._patience.note(request, waited_seconds, was_shown=False)
            self._note_late(request)
            self._report_unseen(request, lambda service, payload: service.never_asked(payload))
            return
        answer = self.answer(request)
        if self._reception is not None:
            self._reception.begin_answer(client)
        try:
            sent = client.connection.send(answer) if answer else 0
        except BlockingIOError:
            sent = 0
        except OSError as error:
            logger.info("action=send_answer error=%s", error)
            client.connection.close()
            self._patience.note(request, time.monotonic() - client.complete_at, was_shown=False)
            if answer:
                self._note_late(request)
                self._report_unseen(request, lambda service, payload: service.came_too_late(payload))
            return
        self._patience.note(request, time.monotonic() - client.complete_at, was_shown=bool(answer))
        if sent < len(answer) and self._reception is not None and not self._is_closing.is_set():
            client.answer = memoryview(answer)[sent:]
            self._reception.send_rest(client)
        else:
            client.connection.close()
        self._write_down()

    def _write_down(self) -> None:
        """Record what was sent to hooks. This is called after sending, so that no hook waits for the write lock."""
        try:
            self._runtime.recollection.write_down()
            self.vaults.write_down()
        except Exception as error:
            logger.warning("action=write_down failed=%s", type(error).__name__, exc_info=error)

    def _note_late(self, request: bytes | None) -> None:
        """Count a prompt as late, with the cause, because its hook exited before the answer was ready."""
        if request is None or not _PROMPT.search(request):
            return
        with contextlib.suppress(EngramError):
            cause = self._why_late()
            with self._runtime.store.transaction() as tx:
                note_late(tx, cause)

    def _why_late(self) -> str:
        if count_without_vector(self._runtime.store):
            return "texts were being embedded"
        if os.getloadavg()[0] > BUSY_LOAD * (os.cpu_count() or 1):
            return "the machine was busy"
        return "the worker had other work" if self._runtime.is_busy else "the search took long"

    def _report_unseen(
        self, request: bytes | None, report: Callable[[RecollectionService, Mapping[str, Any]], object]
    ) -> None:
        """Call ``report`` with the payload of a hook that exited before its answer, so that nothing was shown."""
        with contextlib.suppress(EngramError):
            payload = parse_request(request)
            if is_hook_payload(payload):
                report(self.vaults.for_payload(payload).recollection, payload)
