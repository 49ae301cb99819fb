"""The services that tasks work with, created once when the worker starts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engram.errors import EmbeddingError, EngramError
from engram.extraction.api_key import find_api_key
from engram.models.stages import note_failure, note_success
from engram.models.store import Store
from engram.redaction import redact
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.tasks.serial_executor import BackgroundExecutor, SerialExecutor

if TYPE_CHECKING:
    from engram.consolidation.context import Distilling, Reconciling
    from engram.embedding.embedder import Embedder
    from engram.extraction.language_model import LanguageModel
    from engram.extraction.protocol import Extractor
    from engram.recollection.service import RecollectionService
    from engram.search.service import Searcher

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Runtime:
    """The services of a worker. All threads share one object."""

    settings: Settings
    store: Store
    searcher: Searcher
    recollection: RecollectionService
    #: None if the model can't be used: search then uses text alone.
    embedder: Embedder | None = None
    #: None if extraction is switched off.
    extractor: Extractor | None = None
    #: The language model behind the extractor; None if none is chosen.
    language_model: LanguageModel | None = None
    redact: Callable[..., str] = redact
    #: Runs heavy tasks one at a time.
    executor: SerialExecutor = field(default_factory=SerialExecutor)
    #: Runs tasks that may wait for a language model, one at a time, in their own thread.
    model_executor: BackgroundExecutor = field(default_factory=lambda: BackgroundExecutor("language-model"))
    #: Makes rounds with hubs, in its own thread: a hub that takes long holds up nothing else, and what is asked for
    #: meanwhile is one more round.
    hub_executor: BackgroundExecutor = field(default_factory=lambda: BackgroundExecutor("hub"))
    #: Monotonic time of the start, in seconds.
    started_seconds: float = 0.0
    #: The value of ``embeddable_mark`` when every row had its vector.
    embedded_mark: tuple[int, int, int] | None = None
    #: Set when memory.db turns out to be damaged: the worker stops, so that the next start sets the file aside.
    is_damaged: threading.Event = field(default_factory=threading.Event)

    @property
    def is_stopping(self) -> bool:
        """True once the worker is to stop: a long task ends at its next step."""
        return self.executor.is_closed

    @property
    def is_busy(self) -> bool:
        """True while a heavy task runs or a language model is asked."""
        return self.executor.is_busy or self.model_executor.is_busy

    @property
    def queued(self) -> int:
        """Return the number of heavy tasks that wait for the running ones."""
        return self.executor.queued + self.model_executor.queued

    @property
    def extraction_executor(self) -> SerialExecutor:
        """Return the executor for extractions: the background one if a language model is asked."""
        return self.executor if self.language_model is None else self.model_executor

    @property
    def model_steps(self) -> tuple[Distilling | None, Reconciling | None]:
        """Return the steps of a consolidation that ask the language model; (None, None) without a model."""
        return make_model_steps(self.settings, self.store, self.extractor)

    def stop_executors(self) -> None:
        """Start no heavy task from now on, and end a running call to a language model."""
        self.executor.close()
        self.model_executor.close()
        self.hub_executor.close()
        if self.language_model is not None:
            self.language_model.close()

    def index_mb(self) -> float:
        """Return the size of the vectors in memory, in MB."""
        return round(self.searcher.index_bytes / 1e6, 1)

    def refresh_index(self) -> None:
        """Load new vectors and drop forgotten ones."""
        self.searcher.refresh()

    def catch_up(self) -> None:
        """Load new vectors; returns immediately if there are none."""
        self.searcher.catch_up()


_current: Runtime | None = None


def set_runtime(runtime: Runtime | None) -> None:
    """Set the services that the tasks of this process use; None removes them."""
    global _current
    _current = runtime


def current_runtime() -> Runtime:
    """Return the services of this process.

    Raises:
        EngramError: there are none: only a worker runs tasks.
    """
    if _current is None:
        raise EngramError("this process has no services: tasks run in the worker (`engram work`)")
    return _current


def make_runtime(settings: Settings, store: Store, *, compile_if_missing: bool = True) -> Runtime:
    """Load the embedding model and the extractor; the first ``refresh_index`` loads the vectors.

    A model that can't be used is recorded for the status; everything else works without it.
    """
    from engram.recollection.service import RecollectionService
    from engram.search.service import Searcher

    embedder = _load_embedder(settings, store, compile_if_missing)
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
        started_seconds=store.clock.steady_seconds(),
    )


def make_vault_runtime(outer: Runtime, settings: Settings, store: Store) -> Runtime:
    """Return the services of a vault: its own memory, with the model and the threads of the worker."""
    from engram.recollection.service import RecollectionService
    from engram.search.service import Searcher

    searcher = Searcher(store, settings, embedder=outer.embedder)
    searcher.refresh()
    extractor, language_model = make_extractor(settings, store)
    return Runtime(
        settings=settings,
        store=store,
        searcher=searcher,
        recollection=RecollectionService(store, searcher, settings, embedder=outer.embedder),
        embedder=outer.embedder,
        extractor=extractor,
        language_model=language_model,
        executor=outer.executor,
        model_executor=outer.model_executor,
        started_seconds=outer.started_seconds,
    )


def _load_embedder(settings: Settings, store: Store, compile_if_missing: bool) -> Embedder | None:
    from engram.embedding.load import load_embedder

    try:
        embedder = load_embedder(
            settings.embedding_model,
            settings.places.models,
            compile_if_missing=compile_if_missing,
            document_prompt=settings.document_prompt,
            query_prompt=settings.query_prompt,
            threads=max(0, settings.embedding_threads),
        )
    except EmbeddingError as error:
        logger.warning("action=load_model model=%s error=%s", settings.embedding_model, error)
        note_failure(store, "embed", str(error))
        return None
    if embedder.reason:
        note_failure(store, "model", embedder.reason)
    else:
        note_success(store, "model")
    return embedder


def make_extractor(settings: Settings, store: Store) -> tuple[Extractor | None, LanguageModel | None]:
    """Return the extractor of the settings and the language model that it asks, each None if there is none."""
    if settings.extractor == "off":
        return None, None
    from engram.extraction.local.writer import LocalExtractor

    local = LocalExtractor()
    if settings.extractor == "local":
        return local, None
    from engram.extraction.budget import Budget

    if settings.extractor == "claude":
        from engram.extraction.claude_provider import ClaudeProvider
        from engram.extraction.model_extractor import ModelExtractor

        by_claude = ModelExtractor("claude-1", ClaudeProvider(settings), Budget(store, settings), local)
        return by_claude, by_claude.model
    from engram.extraction.openai_extractor import OpenAIExtractor

    key = find_api_key(settings.places.env_file)
    if not key and not settings.llm_base_url:
        note_failure(
            store,
            "extract",
            "extractor = openai, but OPENAI_API_KEY is not set: the local extractor is used. "
            f"Put the key into {settings.places.env_file.name} in the memory folder and restart the worker",
        )
        return local, None
    by_openai = OpenAIExtractor(settings, Budget(store, settings), local, api_key=key)
    return by_openai, by_openai.model


def make_model_steps(
    settings: Settings, store: Store, extractor: Extractor | None
) -> tuple[Distilling | None, Reconciling | None]:
    """Return what distills local memories again and what finds those that end or repeat others.

    (None, None) without a model.
    """
    from engram.extraction.model_extractor import ModelExtractor

    if not isinstance(extractor, ModelExtractor):
        return None, None
    from engram.extraction.reconcile import Reconciler
    from engram.extraction.second_chance import SecondChance

    return SecondChance(store, settings, extractor), Reconciler(extractor.model)


def find_model_steps(settings: Settings, store: Store) -> tuple[Distilling | None, Reconciling | None]:
    """Return the same steps for a process that is no worker."""
    if settings.extractor not in MODEL_EXTRACTORS:
        return None, None
    return make_model_steps(settings, store, make_extractor(settings, store)[0])
