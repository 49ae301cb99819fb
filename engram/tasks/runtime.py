"""What every task runs in: the services and threads of a worker, and the boundary that records and retries."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engram.errors import BrokenDatabase, Conflict, EmbeddingError, EngramError, StoreError
from engram.extraction.model.provider import api_key_of
from engram.models.engine.transaction import Store
from engram.models.rescue.soundness import UNREADABLE, find_unreadable
from engram.models.work.task_runs import (
    STAGES_OF_SETTINGS,
    RunState,
    begin_task_run,
    clear_failures,
    end_task_run,
    interrupt_task_runs,
    note_failure,
)
from engram.models.work.work import drop_lease, fail, find_work, lease_owners
from engram.redaction import redact
from engram.settings import MODEL_EXTRACTORS, Settings, config_state
from engram.system import process_limits
from engram.system.process_lock import is_process_alive

if TYPE_CHECKING:
    from engram.embedding.embedder import Embedder
    from engram.extraction.candidate import Extractor
    from engram.extraction.model.language_model import LanguageModel
    from engram.extraction.model.reconcile import Reconciler
    from engram.extraction.model.second_chance import SecondChance
    from engram.recollection.recollection_service import RecollectionService
    from engram.search.searcher import Searcher


# -- Executors run heavy actions one at a time. No thread waits for its turn, because the working thread also runs
# queued actions.


class SerialExecutor:
    """Runs actions one after another; each key is queued only once. Queued actions are lost when the process exits."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: dict[str, Callable[[], object]] = {}
        self._is_busy = False
        self._is_closed = False
        #: Monotonic time at which the running action started, in seconds; None while no action is running.
        self._started_seconds: float | None = None

    @property
    def running_seconds(self) -> float:
        """How long the current action has been running, in seconds; 0 while no action is running."""
        started_seconds = self._started_seconds
        return 0.0 if started_seconds is None else time.monotonic() - started_seconds

    @property
    def is_busy(self) -> bool:
        return self._is_busy

    @property
    def is_closed(self) -> bool:
        """True once the process is stopping; a long action then stops at its next step."""
        return self._is_closed

    @property
    def queued(self) -> int:
        return len(self._queue)

    def run(self, key: str, action: Callable[[], object]) -> None:
        """Run ``action`` and everything queued after it; if another thread is working, queue it and return.

        ``action`` must not raise an exception. If it does, queued actions are not run until the next call.
        """
        if self._enqueue(key, action):
            self._work()

    def _enqueue(self, key: str, action: Callable[[], object]) -> bool:
        """Queue an action; return True if the caller must work through the queue."""
        with self._guard:
            if self._is_closed:
                return False
            self._queue.setdefault(key, action)
            if self._is_busy:
                return False
            self._is_busy = True
            return True

    def _work(self) -> None:
        try:
            while (action := self._next()) is not None:
                self._started_seconds = time.monotonic()
                try:
                    with process_limits.giving_way():
                        process_limits.pause()
                        action()
                finally:
                    self._started_seconds = None
        except BaseException:
            with self._guard:
                self._is_busy = False
            raise

    def _next(self) -> Callable[[], object] | None:
        with self._guard:
            if self._is_closed or not self._queue:
                self._is_busy = False
                return None
            return self._queue.pop(next(iter(self._queue)))

    def close(self) -> None:
        """Drop the queue and start no more actions."""
        with self._guard:
            self._is_closed = True
            self._queue.clear()


class BackgroundExecutor(SerialExecutor):
    """A serial executor with its own thread, for tasks that may wait a long time for a model or a hub."""

    def __init__(self, name: str) -> None:
        """Set the name of the thread, which exists only while there is something to run."""
        super().__init__()
        self._name = name
        self._thread: threading.Thread | None = None

    def run(self, key: str, action: Callable[[], object]) -> None:
        """Queue ``action`` and return immediately."""
        if self._enqueue(key, action):
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until the queue is empty or closed; return False if that takes longer than ``seconds``."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()


logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Runtime:
    """A worker's services, shared by all threads."""

    settings: Settings
    store: Store
    searcher: Searcher
    recollection: RecollectionService
    #: None if the model can't be used; search then uses only text.
    embedder: Embedder | None = None
    #: None if extraction is switched off.
    extractor: Extractor | None = None
    #: The language model that the extractor uses; None if none is configured.
    language_model: LanguageModel | None = None
    redact: Callable[..., str] = redact
    #: Runs heavy tasks one at a time.
    executor: SerialExecutor = field(default_factory=SerialExecutor)
    #: Runs tasks that may wait for a language model, one at a time, in their own thread.
    model_executor: BackgroundExecutor = field(default_factory=lambda: BackgroundExecutor("language-model"))
    #: Syncs with hubs in its own thread, so that a slow hub delays nothing else. Requests that arrive during a sync
    #: lead to one more.
    hub_executor: BackgroundExecutor = field(default_factory=lambda: BackgroundExecutor("hub"))
    #: All language models that these threads may wait for, including those of vaults.
    models: list[LanguageModel] = field(default_factory=list)
    #: Monotonic time of the start, in seconds.
    started_seconds: float = 0.0
    #: ``config_state`` of the config.toml that was read.
    config: str = ""
    #: The last value of ``embeddable_mark`` at which every row had its vector.
    embedded_mark: tuple[int, int, int] | None = None
    #: Set when memory.db is found to be damaged; the worker then stops, and the next start sets the file aside.
    is_damaged: threading.Event = field(default_factory=threading.Event)

    @property
    def is_stopping(self) -> bool:
        """True once the worker is stopping; a long task then stops at its next step."""
        return self.executor.is_closed

    @property
    def is_busy(self) -> bool:
        """True while a heavy task is running or waiting for a language model."""
        return self.executor.is_busy or self.model_executor.is_busy

    @property
    def queued(self) -> int:
        """The number of heavy tasks that are waiting for others to finish."""
        return self.executor.queued + self.model_executor.queued

    @property
    def extraction_executor(self) -> SerialExecutor:
        """The executor for extractions: ``model_executor`` if they use a language model, otherwise ``executor``."""
        return self.executor if self.language_model is None else self.model_executor

    def stop_executors(self) -> None:
        """Start no more heavy tasks, and abort any running call to a language model."""
        self.executor.close()
        self.model_executor.close()
        self.hub_executor.close()
        for model in self.models:
            model.close()

    def index_mb(self) -> float:
        return round(self.searcher.index_bytes / 1e6, 1)

    def refresh_index(self) -> None:
        """Load new vectors and drop forgotten ones."""
        self.searcher.refresh()


_current: Runtime | None = None


def set_runtime(runtime: Runtime | None) -> None:
    """Set the services that this process's tasks use; None removes them."""
    global _current
    _current = runtime


def current_runtime() -> Runtime:
    """Return this process's services. Raises EngramError outside a worker."""
    if _current is None:
        raise EngramError("this process has no services: tasks run in the worker (`engram service run worker`)")
    return _current


def make_runtime(settings: Settings, store: Store, *, may_load_torch: bool = True) -> Runtime:
    """Load the embedding model and the extractor; the first ``refresh_index`` loads the vectors.

    If the model can't be used, this is recorded for ``engram status``, and everything else works without it. Failures
    that were caused by earlier settings are cleared.
    """
    config = config_state(settings.places.config_file)
    clear_failures(store, STAGES_OF_SETTINGS)
    embedder = _load_embedder(settings, store, may_load_torch)
    return _assemble(settings, store, embedder, started_seconds=store.clock.steady_seconds(), config=config)


def make_vault_runtime(outer: Runtime, settings: Settings, store: Store) -> Runtime:
    """Create a vault's services: its own memory, with the worker's model and threads."""
    shared = {
        name: getattr(outer, name) for name in ("executor", "model_executor", "models", "started_seconds", "config")
    }
    runtime = _assemble(settings, store, outer.embedder, **shared)
    runtime.refresh_index()
    return runtime


def _assemble(settings: Settings, store: Store, embedder: Embedder | None, **others: Any) -> Runtime:
    from engram.recollection.recollection_service import RecollectionService
    from engram.search.searcher import Searcher

    searcher = Searcher(store, settings, embedder=embedder)
    extractor, language_model = make_extractor(settings, store)
    runtime = Runtime(
        settings=settings,
        store=store,
        searcher=searcher,
        recollection=RecollectionService(store, searcher, settings, embedder=embedder),
        embedder=embedder,
        extractor=extractor,
        language_model=language_model,
        **others,
    )
    if language_model is not None:
        runtime.models.append(language_model)
    return runtime


def _load_embedder(settings: Settings, store: Store, may_load_torch: bool) -> Embedder | None:
    from engram.embedding.load_model import load_embedder

    try:
        return load_embedder(
            settings.embedding_model,
            may_load_torch=may_load_torch,
            document_prompt=settings.document_prompt,
            query_prompt=settings.query_prompt,
            threads=max(0, settings.embedding_threads),
        )
    except EmbeddingError as error:
        logger.warning("action=load_model model=%s error=%s", settings.embedding_model, error)
        note_failure(store, "embed", str(error))
        return None


def make_extractor(settings: Settings, store: Store) -> tuple[Extractor | None, LanguageModel | None]:
    if settings.extractor == "off":
        return None, None
    from engram.extraction.local.local_extractor import LocalExtractor

    local = LocalExtractor()
    if settings.extractor == "local":
        return local, None
    from engram.extraction.model.provider import STAGE, Budget

    if settings.extractor == "claude":
        from engram.extraction.model.claude_provider import ClaudeProvider
        from engram.extraction.model.model_extractor import ModelExtractor

        by_claude = ModelExtractor("claude-1", ClaudeProvider(settings), Budget(store, settings), local)
        return by_claude, by_claude.model
    from engram.extraction.model.openai_provider import OpenAIExtractor

    key = api_key_of(settings)
    if not key and not settings.llm_base_url:
        note_failure(
            store,
            STAGE,
            "extractor = openai, but OPENAI_API_KEY is not set: the local extractor is used. "
            f"Put the key into {settings.places.env_file.name} in the memory folder and restart the worker",
        )
        return local, None
    by_openai = OpenAIExtractor(settings, Budget(store, settings), local, api_key=key)
    return by_openai, by_openai.model


def make_model_steps(
    settings: Settings, store: Store, extractor: Extractor | None
) -> tuple[SecondChance | None, Reconciler | None]:
    """Create the steps that distill local memories again and reconcile memories; (None, None) without a model."""
    from engram.extraction.model.model_extractor import ModelExtractor

    if not isinstance(extractor, ModelExtractor):
        return None, None
    from engram.extraction.model.reconcile import Reconciler
    from engram.extraction.model.second_chance import SecondChance

    return SecondChance(store, settings, extractor), Reconciler(extractor.model)


def find_model_steps(settings: Settings, store: Store) -> tuple[SecondChance | None, Reconciler | None]:
    """Create the same steps as ``make_model_steps``, for a process that is not a worker."""
    if settings.extractor not in MODEL_EXTRACTORS:
        return None, None
    return make_model_steps(settings, store, make_extractor(settings, store)[0])


# -- The boundary of every task, which records its run, and logs, records and retries its failures.

#: Number of consecutive unexpected failures after which work is set aside as dead. Expected failures never lead to
#: this.
MAX_ATTEMPTS = 12


def run_guarded(runtime: Runtime, kind: str, key: str, action: Callable[[], object], *, stage: str = "") -> bool:
    """Run a piece of work; return False if it failed. It is then due again after 15, 30, 60 or 120 s.

    Args:
        key: what the work is about, such as a session id; "" for kinds without a key.
        action: may raise any exception. If it returns text, this is recorded as the outcome: what was done, or
            ``NOTHING``.
        stage: the stage with the health that a failure affects; ``kind`` by default.
    """
    run = _RecordedRun(runtime, kind, key)
    try:
        result = action()
    except Exception as error:  # noqa: BLE001 - the boundary of a task
        _handle_failure(runtime, kind, key, stage or kind, error)
        run.end_failed(error)
        return False
    run.end_done(result if isinstance(result, str) else "")
    if not stage:
        # Work that finds nothing to do is also healthy. The health of a shared stage depends on the other work.
        with contextlib.suppress(StoreError):
            clear_failures(runtime.store, (kind,))
    return True


class _RecordedRun:
    """The record of one run. A task runs even if its record can't be written."""

    def __init__(self, runtime: Runtime, kind: str, key: str) -> None:
        self._runtime = runtime
        self._kind = kind
        self._key = key
        self._id: int | None = None
        with contextlib.suppress(StoreError):
            self._id = begin_task_run(runtime.store, kind, key)
        self._started_seconds = time.monotonic()

    def end_done(self, outcome: str) -> None:
        logger.info("action=%s about=%s duration_ms=%d", self._kind, self._key, self._duration_ms())
        self._end(RunState.DONE, outcome)

    def end_failed(self, error: Exception) -> None:
        redact = self._runtime.redact
        if isinstance(error, Conflict):
            self._end(RunState.DONE, redact(str(error)))
            return
        text = "".join(traceback.format_exception(error))
        self._end(RunState.FAILED, redact(_describe(error)), redact(text))

    def _end(self, state: RunState, outcome: str, error: str = "") -> None:
        if self._id is None:
            return
        with contextlib.suppress(StoreError):
            end_task_run(
                self._runtime.store,
                self._id,
                self._kind,
                state,
                duration_ms=self._duration_ms(),
                outcome=outcome,
                error=error,
            )

    def _duration_ms(self) -> int:
        return round((time.monotonic() - self._started_seconds) * 1000)


def _handle_failure(runtime: Runtime, kind: str, key: str, stage: str, error: Exception) -> None:
    """Log a failure and postpone the work; continue even if the database can't be written."""
    is_expected = isinstance(error, EngramError)
    logger.warning("action=%s about=%s failed=%s", kind, key, error, exc_info=None if is_expected else error)
    if isinstance(error, BrokenDatabase) or (isinstance(error, UNREADABLE) and _is_damaged(runtime)):
        runtime.is_damaged.set()
        return
    if isinstance(error, Conflict):
        return
    text = runtime.redact(_describe(error))
    try:
        work = find_work(runtime.store, kind, key)
        if work is not None:
            fail(runtime.store, work, text, max_attempts=0 if is_expected else MAX_ATTEMPTS)
        note_failure(runtime.store, stage, text)
    except StoreError as worse:
        logger.warning("action=note_failure about=%s error=%s", key, worse)


def _describe(error: Exception) -> str:
    """Return a failure's message, preceded by its type if it was unexpected."""
    return str(error) if isinstance(error, EngramError) else f"{type(error).__name__}: {error}"


def _is_damaged(runtime: Runtime) -> bool:
    """Return True if memory.db contains an unreadable row, which may have caused an unexpected failure."""
    try:
        return bool(find_unreadable(runtime.store))
    except StoreError:
        return False


# -- After a crash, release the dead worker's leases, and set aside work that keeps crashing its process.

#: Number of crashes after which a piece of work is set aside.
MAX_CRASHES = 12
#: Number of crashes that are attributed to chance; up to this number, the work is retried immediately.
FREE_CRASHES = 5


def recover_from_crash(store: Store) -> None:
    """Release the leases of dead processes and postpone their work. The caller holds the worker's lock."""
    for name, owner in lease_owners(store).items():
        if not _is_living_other(_pid_of(owner)):
            drop_lease(store, name, owner)
    for run in interrupt_task_runs(store, _is_living_other):
        work = find_work(store, run.kind, run.key)
        if work is not None:
            reason = "the worker was killed or crashed during this work"
            fail(store, work, reason, free=FREE_CRASHES, max_attempts=MAX_CRASHES)


def is_owner_gone(owner: str) -> bool:
    """Return True if the process that took a lease has exited."""
    return not is_process_alive(_pid_of(owner))


def _is_living_other(pid: int) -> bool:
    """Return True for a different, living process.

    A record with this process's own id was written by an earlier process.
    """
    return pid != os.getpid() and is_process_alive(pid)


def _pid_of(owner: str) -> int:
    """Return the process id in the name of a lease's owner; 0, which counts as alive, if there is none."""
    pid = owner.partition("-")[0]
    return int(pid) if pid.isdigit() else 0
