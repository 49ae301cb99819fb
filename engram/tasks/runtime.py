"""The services that tasks use, created once when the worker starts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engram.errors import EmbeddingError, EngramError
from engram.extraction.model.provider import find_api_key
from engram.models.engine.transaction import Store
from engram.models.work.task_runs import STAGES_OF_SETTINGS, clear_failures, note_failure
from engram.redaction import redact
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.system import process_limits

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
    #: Monotonic time of the start, in seconds.
    started_seconds: float = 0.0
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

    @property
    def model_steps(self) -> tuple[SecondChance | None, Reconciler | None]:
        """The steps of a consolidation that use the language model; (None, None) without one."""
        return make_model_steps(self.settings, self.store, self.extractor)

    def stop_executors(self) -> None:
        """Start no more heavy tasks, and abort any running call to a language model."""
        self.executor.close()
        self.model_executor.close()
        self.hub_executor.close()
        if self.language_model is not None:
            self.language_model.close()

    def index_mb(self) -> float:
        return round(self.searcher.index_bytes / 1e6, 1)

    def refresh_index(self) -> None:
        """Load new vectors and drop forgotten ones."""
        self.searcher.refresh()

    def catch_up(self) -> None:
        """Load new vectors; return immediately if there are none."""
        self.searcher.catch_up()


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
    clear_failures(store, STAGES_OF_SETTINGS)
    embedder = _load_embedder(settings, store, may_load_torch)
    return _assemble(settings, store, embedder, started_seconds=store.clock.steady_seconds())


def make_vault_runtime(outer: Runtime, settings: Settings, store: Store) -> Runtime:
    """Create a vault's services: its own memory, with the worker's model and threads."""
    shared = {name: getattr(outer, name) for name in ("executor", "model_executor", "started_seconds")}
    runtime = _assemble(settings, store, outer.embedder, **shared)
    runtime.refresh_index()
    return runtime


def _assemble(settings: Settings, store: Store, embedder: Embedder | None, **others: Any) -> Runtime:
    from engram.recollection.recollection_service import RecollectionService
    from engram.search.searcher import Searcher

    searcher = Searcher(store, settings, embedder=embedder)
    extractor, language_model = make_extractor(settings, store)
    return Runtime(
        settings=settings,
        store=store,
        searcher=searcher,
        recollection=RecollectionService(store, searcher, settings, embedder=embedder),
        embedder=embedder,
        extractor=extractor,
        language_model=language_model,
        **others,
    )


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
    """Return the extractor chosen in the settings and its language model; each is None if there is none."""
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

    key = find_api_key(settings.places.env_file)
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
