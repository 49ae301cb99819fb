"""Answer requests on engram.sock: a hook's payload gets a recollection, any other request runs an operation.

Each is answered from the memory that it is about: the worker's own, or a vault's, which the worker also opens and keeps
    up to date.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from engram.errors import BadRequest, BrokenDatabase, EngramError, StoreError
from engram.forgetting.whole_project import note_repository
from engram.ingest.read_sources import ingest_source
from engram.ingest.session_project import vault_of
from engram.models.engine.database import using_database
from engram.models.engine.transaction import Store
from engram.models.forgetting.forget_memories import drop_forgotten_texts
from engram.models.projects.projects import NO_PROJECT, project_by_id
from engram.models.sessions.reading_progress import load_progress
from engram.models.sessions.sessions import find_session
from engram.models.shown.usage import SessionTotals, count_sessions
from engram.models.work.task_runs import note_damage, note_lost_writes
from engram.models.work.work import due_work
from engram.notes.standing import standing_of
from engram.paths import is_session_id
from engram.recollection.recollection_service import explain
from engram.recollection.session_start import preview_briefing
from engram.search.answer import answer_question, public_passages
from engram.search.edited_since import LaterChanges
from engram.search.hits import MAX_HITS, PublicHit
from engram.search.question import Query
from engram.search.vectors.loaded_vectors import embed_newest_memories
from engram.system import process_limits
from engram.system.process_limits import rss_mb
from engram.tasks.drain import drain
from engram.tasks.runtime import Runtime, make_vault_runtime, run_guarded
from engram.tasks.session_tasks import embed, recollect_now
from engram.text.words import MAX_QUERY_CHARS
from engram.transcripts import registry
from engram.transcripts.agents import Source
from engram.transcripts.json_values import storable_value
from engram.vaults import FILE_NAME, Vault, list_vaults, mark_of, own_vault, settings_of
from engram.worker.memory_file import DailyBackup, open_or_set_aside
from engram.worker.recall_client import Operation
from engram.worker.worker_client import WorkerStatus

logger = logging.getLogger(__name__)

# -- Open vaults on demand. Each vault has its own memory; the model and the threads are shared.

#: Interval between two checks of the vaults' sessions, in seconds.
VAULT_EVERY_SECONDS = 60.0
#: How long shutdown waits for a busy vault, in seconds.
CLOSE_SECONDS = 5.0


class _OpenVault:
    def __init__(self, vault: Vault, outer: Runtime) -> None:
        self.vault = vault
        self._opened = contextlib.ExitStack()
        settings = settings_of(vault, outer.settings)
        settings.places.prepare(must_exist=True)
        with contextlib.suppress(OSError):
            mark_of(vault.folder).touch(mode=0o600)  # an earlier version made none
        try:
            log_damage = self._opened.enter_context(using_database(settings.places.memory_db))
            store = open_or_set_aside(settings.places, settings, clock=outer.store.clock)
            self._opened.callback(store.close)
            if log_damage:
                note_lost_writes(store, log_damage)
        except BaseException:
            self._opened.close()
            raise
        self.runtime = make_vault_runtime(outer, settings, store)
        self._identity = store.file_identity()
        #: True if its log was deleted, so that closing it would copy old data into a file that others use with a new
        #: log.
        self.is_log_displaced = False
        self._backup = DailyBackup(self.runtime)
        #: Sources of other projects that were skipped, by place, with the stamps that they had at the time.
        self._passed_over: dict[Any, str] = {}

    @property
    def is_replaced(self) -> bool:
        """True if another file is at the path of its memory, such as one of a new vault in the same folder."""
        return self.runtime.store.file_identity() not in (None, self._identity)

    def displaced(self) -> Store | None:
        """Return its memory if its log was deleted or replaced since this thread first asked."""
        store = self.runtime.store
        if store.file_identity() != self._identity or not store.is_displaced():
            return None
        self.is_log_displaced = True
        return store

    def close(self) -> None:
        if not self.is_log_displaced:
            self._opened.close()

    def work(self) -> None:
        """Read the project's sessions, choose what they are shown, make memories from them, consolidate and back up."""
        runtime = self.runtime
        vault = own_vault(runtime.settings.places) or self.vault
        if vault.identities != self.vault.identities:
            self._passed_over.clear()  # they may be of a folder that belongs to the project since
        self.vault = vault
        note_repository(runtime.store, vault)
        for source in registry.discover(runtime.settings):
            if runtime.is_stopping:
                return
            if self._is_changed(source):
                read = ingest_source(runtime.store, source, settings=runtime.settings, redact=runtime.redact)
                if read.skipped:
                    self._passed_over[source.place] = source.stamp
        for work in due_work(runtime.store):
            if work.kind == "recollect":
                run_guarded(runtime, "recollect", work.key, partial(recollect_now, runtime, work.key))
        runtime.recollection.tidy()
        drain(runtime, with_consolidation=True)
        runtime.refresh_index()
        drop_forgotten_texts(runtime.store)
        self._backup.run_if_due()

    def _is_changed(self, source: Source) -> bool:
        if self._passed_over.get(source.place) == source.stamp:
            return False
        return load_progress(self.runtime.store, source.place).stamp != source.stamp


def _open_vault(vault: Vault, outer: Runtime) -> _OpenVault:
    """Open a vault. Raises StoreError if its memory is damaged and could not be set aside."""
    try:
        return _OpenVault(vault, outer)
    except BrokenDatabase as error:
        raise StoreError(f"a vault's memory can't be set aside: {error}") from error


class Vaults:
    """Routes a vault's requests and data to its memory. Thread-safe."""

    def __init__(self, runtime: Runtime) -> None:
        self._outer = runtime
        self._lock = threading.Lock()
        self._open: dict[str, _OpenVault] = {}
        self._checked_seconds: float | None = None
        self._thread: threading.Thread | None = None

    def for_payload(self, payload: Mapping[str, Any]) -> Runtime:
        """Return the services for a hook: those of the vault that its session or folder belongs to, or the worker's.

        Raises EngramError if a vault can't be read or opened, in which case nothing may be shown.
        """
        vaults = list_vaults(self._outer.settings.places)
        if not vaults:
            return self._outer
        session_id = str(payload.get("session_id") or "")
        for vault in vaults:
            if not vault.is_sealed:
                continue  # nothing of it is shown while it is being moved, but other projects go on
            runtime = self._opened(vault).runtime
            with self.noting_damage(runtime):
                if find_session(runtime.store, session_id) is not None:
                    return runtime
        vault_of_cwd = vault_of(self._outer.settings, str(payload.get("cwd") or ""))
        return self._outer if vault_of_cwd is None else self._opened(vault_of_cwd).runtime

    def named(self, name: object) -> Runtime:
        """Return the services of the vault with the given name, or the worker's for None. Raises BadRequest."""
        if name is None:
            return self._outer
        for vault in list_vaults(self._outer.settings.places):
            if vault.folder.name == name:
                return self._opened(vault).runtime
        raise BadRequest("there is no such vault")

    @contextlib.contextmanager
    def noting_damage(self, runtime: Runtime) -> Iterator[None]:
        """Mark a vault's memory as damaged if the block fails because of damage; the next opening sets it aside.

        Raises:
            StoreError: the vault's memory is damaged.
            BrokenDatabase: the worker's own memory is damaged.
        """
        try:
            yield
        except BrokenDatabase as error:
            if runtime is self._outer:
                raise
            runtime.is_damaged.set()
            raise StoreError(f"a vault's memory is damaged: {error}") from error

    def write_down(self) -> None:
        """Record what was sent to hooks in vaults."""
        for known in self._known():
            with contextlib.suppress(StoreError), self.noting_damage(known.runtime):
                known.runtime.recollection.write_down()

    def displaced(self) -> list[Store]:
        """Return the memories of open vaults whose log was deleted or replaced since this thread first asked."""
        found = []
        for known in self._known():
            with contextlib.suppress(StoreError), self.noting_damage(known.runtime):
                found.append(known.displaced())
        return [store for store in found if store is not None]

    def count_sessions(self, session_ids: Sequence[str]) -> dict[str, SessionTotals]:
        """Return session id → figures, for those of the sessions that are in open vaults."""
        totals: dict[str, SessionTotals] = {}
        for known in self._known():
            with contextlib.suppress(StoreError), self.noting_damage(known.runtime):
                totals |= count_sessions(known.runtime.store, session_ids)
        return totals

    def check(self) -> None:
        """Once a minute, start the work of every sealed vault; close those that are gone."""
        steady = self._outer.store.clock.steady_seconds()
        if self._checked_seconds is not None and 0 <= steady - self._checked_seconds < VAULT_EVERY_SECONDS:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._checked_seconds = steady
        for known in self._known():
            if not (known.vault.folder / FILE_NAME).exists():
                self._drop(known)
        todo = [vault for vault in list_vaults(self._outer.settings.places) if vault.is_sealed]
        if todo:
            # Run in a separate thread, because a first read takes a while and housekeeping must continue.
            self._thread = threading.Thread(target=self._work_all, args=(todo,), name="vaults", daemon=True)
            self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                return
        for known in self._known():
            self._drop(known)

    def _work_all(self, vaults: Sequence[Vault]) -> None:
        for vault in vaults:
            try:
                opened = self._opened(vault)
            except EngramError as error:
                logger.warning("action=open_vault failed=%s", error)
                continue
            # Record the run only in the vault, because no other memory may contain the vault's name.
            work = partial(run_guarded, opened.runtime, "vault", "", opened.work)
            opened.runtime.extraction_executor.run(f"vault {vault.folder.name}", work)

    def _opened(self, vault: Vault) -> _OpenVault:
        with self._lock:
            key = str(vault.folder)
            known = self._open.get(key)
            is_damaged = known is not None and known.runtime.is_damaged.is_set()
            if known is not None and (is_damaged or known.is_replaced or not vault.is_sealed):
                del self._open[key]
                if is_damaged:
                    note_damage(known.runtime.store)
                known.close()
                known = None
            if known is None:
                known = self._open[key] = _open_vault(vault, self._outer)
            return known

    def _known(self) -> list[_OpenVault]:
        with self._lock:
            return list(self._open.values())

    def _drop(self, known: _OpenVault) -> None:
        with self._lock:
            self._open.pop(str(known.vault.folder), None)
        known.close()


# -- Answers.

#: Operations for which a person or an agent is waiting; heavy work pauses in the meantime.
_QUESTIONS = frozenset({"briefing", "explain", "recall", "search"})


def parse_request(request: bytes | None) -> dict[str, Any]:
    """Return the JSON object in a request, making its strings storable. Raises BadRequest."""
    try:
        parsed = None if request is None else json.loads(request.decode("utf-8", "replace"))
        if request is not None and b"\\u" in request:
            parsed = storable_value(parsed)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise BadRequest("a request must be a JSON object of at most 1 MB")
    return parsed


def is_hook_payload(parsed: Mapping[str, Any]) -> bool:
    return "hook_event_name" in parsed


class Answers:
    """Answers requests. Thread-safe."""

    def __init__(self, runtime: Runtime, vaults: Vaults) -> None:
        self._runtime = runtime
        self._vaults = vaults
        self._later_changes = LaterChanges(runtime.store.clock)
        self._operations: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "briefing": self._briefing,
            "explain": self._explain,
            "rank": self._rank,
            "recall": self._recall,
            "search": self._search,
            "status": self._status,
            "wake": self._wake,
        }

    def answer(self, request: bytes | None) -> bytes:
        """Return the response to a request; b"" if it needs none. Never raises an exception."""
        try:
            parsed = parse_request(request)
            if is_hook_payload(parsed):
                with process_limits.asking():
                    return self._answer_hook(parsed)
            with process_limits.asking() if str(parsed.get("op")) in _QUESTIONS else contextlib.nullcontext():
                return json.dumps(self._run_operation(parsed)).encode()
        except EngramError as error:
            self._report_damage(error)
            return json.dumps({"error": str(error)}).encode()
        except Exception as error:
            logger.warning("action=answer failed=%s", type(error).__name__, exc_info=error)
            return json.dumps({"error": f"{type(error).__name__}: {str(error)[:200]}"}).encode()

    def _answer_hook(self, payload: Mapping[str, Any]) -> bytes:
        try:
            runtime = self._vaults.for_payload(payload)
            with self._vaults.noting_damage(runtime):
                return runtime.recollection.answer_hook(payload)
        except Exception as error:
            self._report_damage(error)
            logger.warning("action=answer_hook failed=%s", type(error).__name__, exc_info=error)
            return b""

    def _report_damage(self, error: Exception) -> None:
        """Notify the worker if a request failed because the database is damaged."""
        if isinstance(error, BrokenDatabase):
            self._runtime.is_damaged.set()

    def _run_operation(self, request: Mapping[str, Any]) -> dict[str, Any]:
        operation = self._operations.get(str(request.get("op")))
        if operation is None:
            raise BadRequest(f"op must be one of {', '.join(sorted(self._operations))}")
        return operation(request)

    def find(self, vault: object, operation: Operation, query: Query) -> tuple[Sequence[PublicHit], str]:
        """Search a memory; return the hits and a sentence that introduces them.

        Args:
            vault: a vault's folder name; None for the worker's own memory.

        Raises:
            EngramError: there is no such vault, or the memory can't be read.
        """
        with self._memory(vault) as runtime:
            runtime.searcher.catch_up()
            if operation is Operation.SEARCH:
                found, unsaid = runtime.searcher.look_up(query)
                return public_passages(runtime.store, found, query.project_id), unsaid
            standing = standing_of(runtime.store, query.project_id)
            changes = partial(self._later_changes.of_turns, runtime.store, runtime.settings)
            answer = answer_question(runtime.store, runtime.searcher, query, standing_of=standing, changes_of=changes)
            return answer.hits, ""

    def wake(self, vault: object = None) -> None:
        """Process what a command or a tool has written: embed new memories now, and everything else in a task.

        Args:
            vault: a vault's folder name, where the next check does everything else; None for the worker's own memory.
        """
        with self._memory(vault) as runtime:
            if runtime.embedder is not None:
                embed_newest_memories(runtime.store, runtime.embedder)
            runtime.refresh_index()
        if runtime is self._runtime:
            embed()

    @contextlib.contextmanager
    def _memory(self, vault: object) -> Iterator[Runtime]:
        """Yield the services of the memory that a request is about. Raises EngramError, as for ``find``."""
        runtime = self._vaults.named(vault)
        with self._vaults.noting_damage(runtime):
            yield runtime

    def _recall(self, request: Mapping[str, Any]) -> dict[str, Any]:
        hits, _ = self.find(request.get("vault"), Operation.RECALL, _query(request))
        return {"hits": [hit.to_json() for hit in hits]}

    def _rank(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ids of memories found by text and meaning, best first, for clients that read memory.db."""
        with self._memory(request.get("vault")) as runtime:
            runtime.searcher.catch_up()
            hits = runtime.searcher.recall(_query(request))
        return {"hits": [{"id": hit.id, "score": round(hit.score, 4), "doubtful": hit.is_doubtful} for hit in hits]}

    def _search(self, request: Mapping[str, Any]) -> dict[str, Any]:
        hits, unsaid = self.find(request.get("vault"), Operation.SEARCH, _query(request))
        return {"hits": [hit.to_json() for hit in hits], "unsaid": unsaid}

    def _explain(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Explain the answer that a prompt would get, without storing anything."""
        prompt, project_id = request.get("prompt"), request.get("project_id")
        if not isinstance(prompt, str):
            raise BadRequest("prompt must be a string")
        if project_id is not None and (not isinstance(project_id, int) or isinstance(project_id, bool)):
            raise BadRequest("project_id must be a number")
        session_id = request.get("session_id")
        session_id = session_id if isinstance(session_id, str) and is_session_id(session_id) else ""
        with self._memory(request.get("vault")) as runtime:
            project = None if project_id is None else project_by_id(runtime.store, project_id)
            if project_id is not None and project is None:
                raise BadRequest(f"there is no project {project_id}")
            return explain(runtime.recollection, prompt, project, session_id=session_id).to_json()

    def _briefing(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the briefing that a project's next session would get, without storing or claiming anything."""
        project_id = request.get("project_id")
        with self._memory(request.get("vault")) as runtime:
            project = project_by_id(runtime.store, project_id) if isinstance(project_id, int) else None
            if project is None:
                raise BadRequest(f"there is no project {project_id}")
            return {"text": preview_briefing(runtime.store, runtime.settings, project)}

    def _status(self, _: Mapping[str, Any]) -> dict[str, Any]:
        runtime = self._runtime
        status = WorkerStatus(
            pid=os.getpid(),
            rss_mb=rss_mb(),
            uptime_seconds=round(runtime.store.clock.steady_seconds() - runtime.started_seconds, 1),
            config=runtime.config,
            model=runtime.embedder.model_id if runtime.embedder else None,
            runtime=runtime.embedder.runtime if runtime.embedder else "text only",
            reason="" if runtime.embedder else "the embedding model is not loaded",
            index_mb=runtime.index_mb(),
            is_busy=runtime.is_busy,
            waiting=runtime.queued,
        )
        return status.to_json()

    def _wake(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.wake(request.get("vault"))
        return {"ok": True}


def _query(request: Mapping[str, Any]) -> Query:
    """Parse a request's query. Raises BadRequest."""
    text, limit, project_id = request.get("query"), request.get("limit", 5), request.get("project_id")
    if not isinstance(text, str):
        raise BadRequest("query must be a string")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_HITS:
        raise BadRequest(f"limit must be a number from 1 to {MAX_HITS}")
    if project_id is not None and (not isinstance(project_id, int) or isinstance(project_id, bool)):
        raise BadRequest("project_id must be a number")
    if project_id is None and request.get("all_projects") is not True:
        # Without a project, search only global memories; only a person's command searches all projects.
        project_id = NO_PROJECT
    max_hits = request.get("max_hits")
    return Query(
        text=text[:MAX_QUERY_CHARS],
        project_id=project_id,
        limit=limit,
        branch=str(request.get("branch", "")),
        max_hits=max(1, max_hits) if isinstance(max_hits, int) else None,
    )
