"""The services that tasks work with, laid on once when the worker starts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engram.errors import EmbeddingError, EngramError
from engram.extraction.api_key import find_api_key
from engram.models.store import Store
from engram.models.work import note_failure, note_success
from engram.redaction import redact
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.tasks.serial_executor import BackgroundLane, HeavyLane

if TYPE_CHECKING:
    from engram.consolidation.reconcile import Reconciling
    from engram.consolidation.rewording import Rewording
    from engram.embedding.embedder import Embedder
    from engram.extraction.protocol import Extractor
    from engram.recollection.service import RecollectionService
    from engram.search.service import Searcher

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Runtime:
    """What a task may use. One object serves all threads."""

    settings: Settings
    store: Store
    searcher: Searcher
    recollection: RecollectionService
    #: None where the model cannot be used: text alone then.
    embedder: Embedder | None = None
    #: None where extraction is switched off.
    extractor: Extractor | None = None
    #: None where no language model is chosen.
    rewording: Rewording | None = None
    #: None where no language model is chosen.
    reconciling: Reconciling | None = None
    redact: Callable[..., str] = redact
    lane: HeavyLane = field(default_factory=HeavyLane)
    #: What may wait for a language model; one at a time, in a thread that nobody else waits for.
    model_lane: BackgroundLane = field(default_factory=lambda: BackgroundLane("language-model"))
    #: Steady time at which it was laid on, in seconds.
    started_seconds: float = 0.0
    #: What ``embeddable_mark`` said when every row had its vector.
    embedded_mark: tuple[int, int, int] | None = None
    #: Set where memory.db proved to be damaged: the worker stops, so that the next start sets it aside.
    is_damaged: threading.Event = field(default_factory=threading.Event)

    @property
    def is_stopping(self) -> bool:
        """True once the worker is to stop: a long task ends at its next step."""
        return self.lane.is_closed

    @property
    def is_busy(self) -> bool:
        """True while a heavy task runs or a language model is asked."""
        return self.lane.is_busy or self.model_lane.is_busy

    @property
    def waiting(self) -> int:
        """How many tasks stand in line behind those that run."""
        return self.lane.length + self.model_lane.length

    def lane_of_extraction(self) -> HeavyLane:
        """Where extractions run: in the background where a language model is asked."""
        return self.lane if self.rewording is None else self.model_lane

    def stop_lanes(self) -> None:
        """Begin nothing any more, and end a call to a language model that is under way."""
        self.lane.close()
        self.model_lane.close()
        model = getattr(self.extractor, "model", None)
        if model is not None:
            model.close()

    def index_mb(self) -> float:
        """Size of the vectors in memory, in MB."""
        return round(self.searcher.index_bytes / 1e6, 1)

    def refresh_index(self) -> None:
        """Bring the vectors in memory up to date, and drop what was forgotten."""
        self.searcher.refresh()

    def catch_up(self) -> None:
        """Read the vectors that are new; costs nothing where none are."""
        self.searcher.catch_up()


_current: Runtime | None = None


def lay_on(runtime: Runtime | None) -> None:
    """Make ``runtime`` the one that tasks of this process use; None takes it away."""
    global _current
    _current = runtime


def current_runtime() -> Runtime:
    """The services of this process.

    Raises:
        EngramError: none were laid on: only a worker runs tasks.
    """
    if _current is None:
        raise EngramError("no services are laid on: tasks run in the worker")
    return _current


def make_runtime(settings: Settings, store: Store, *, compile_if_missing: bool = True) -> Runtime:
    """Load the model and the extractor for an open memory; the vectors come with the first ``refresh_index``.

    A model that cannot be used is noted in the status; everything else works without it.
    """
    from engram.recollection.service import RecollectionService
    from engram.search.service import Searcher

    embedder = _load_embedder(settings, store, compile_if_missing)
    searcher = Searcher(store, settings, embedder=embedder)
    recollection = RecollectionService(store, searcher, settings, embedder=embedder)
    extractor = _make_extractor(settings, store)
    return Runtime(
        settings, store, searcher, recollection, embedder, extractor, rewording_by(extractor), reconciling_by(extractor),
        started_seconds=store.clock.steady_seconds(),
    )  # fmt: skip


def _load_embedder(settings: Settings, store: Store, compile_if_missing: bool) -> Embedder | None:
    from engram.embedding.load import load_embedder

    try:
        embedder = load_embedder(
            settings.embedding_model,
            settings.places.models,
            compile_if_missing=compile_if_missing,
            document_prompt=settings.document_prompt,
            query_prompt=settings.query_prompt,
            threads=max(1, settings.embedding_threads),
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


def _make_extractor(settings: Settings, store: Store) -> Extractor | None:
    if settings.extractor == "off":
        return None
    from engram.extraction.local import LocalExtractor

    local = LocalExtractor()
    if settings.extractor == "local":
        return local
    from engram.extraction.budget import Budget

    if settings.extractor == "claude":
        from engram.extraction.claude_provider import ClaudeProvider
        from engram.extraction.model_extractor import ModelExtractor

        return ModelExtractor("claude-1", ClaudeProvider(settings), Budget(store, settings), local)
    from engram.extraction.openai_extractor import OpenAIExtractor

    key = find_api_key(settings.places.env_file)
    if not key and not settings.llm_base_url:
        note_failure(store, "extract", "extractor = openai, but there is no OPENAI_API_KEY: the local one serves")
        return local
    return OpenAIExtractor(settings, Budget(store, settings), local, api_key=key)


def rewording_by(extractor: Extractor | None) -> Rewording | None:
    """What finds better words for local memories: the language model of the extractor; None where it has none."""
    model = getattr(extractor, "model", None)
    if model is None:
        return None
    from engram.extraction.rewording import Rewriter

    return Rewriter(model)


def reconciling_by(extractor: Extractor | None) -> Reconciling | None:
    """What says which memories end or repeat others: the language model of the extractor; None where it has none."""
    model = getattr(extractor, "model", None)
    if model is None:
        return None
    from engram.extraction.reconcile import Reconciler

    return Reconciler(model)


def find_model_steps(settings: Settings, store: Store) -> tuple[Rewording | None, Reconciling | None]:
    """Both for a process that is no worker."""
    extractor = _make_extractor(settings, store) if settings.extractor in MODEL_EXTRACTORS else None
    return rewording_by(extractor), reconciling_by(extractor)
