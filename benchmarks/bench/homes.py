"""Memory folders for a benchmark: filled through the real pipeline, and temporary or kept in a given folder."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from bench.memories import embed_all
from engram.embedding.embedder import Embedder
from engram.embedding.load_model import load_embedder
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_all
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import list_sessions
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings

#: For settings that limit what a benchmark measures.
NO_LIMIT = 1_000_000_000

Progress: TypeAlias = Callable[[str], None]


@dataclass(slots=True)
class BenchHomes:
    """Opens memories, each in its own folder."""

    folder: Path
    settings: Settings
    #: None to measure the search by text alone.
    embedder: Embedder | None
    #: Receives a line for each step.
    progress: Progress = lambda line: None

    @contextlib.contextmanager
    def memory(self, name: str, fill: Callable[[Store, Settings], None]) -> Iterator[tuple[Store, Searcher]]:
        """Open the memory with that name, with its vectors loaded. A new one is filled by ``fill``."""
        settings = replace(
            self.settings, home=self.folder / _folder_name(name), hourly_memories=NO_LIMIT, exclude=(), capture=True
        )
        is_new = not settings.places.memory_db.exists()
        settings.places.prepare()
        store = open_store(settings.places.memory_db, driver=settings.sqlite_driver)
        try:
            if is_new:
                fill(store, settings)
            embed_all(store, self.embedder)
            searcher = Searcher(store, settings, embedder=self.embedder)
            searcher.refresh()
            yield store, searcher
        finally:
            store.close()


@contextlib.contextmanager
def open_homes(
    settings: Settings, *, no_model: bool, keep: Path | None, progress: Progress = lambda line: None
) -> Iterator[BenchHomes]:
    """Open a folder for memories.

    Args:
        settings: the benchmark's settings; each memory gets its own home and no hourly limit.
        no_model: measure the search by text alone.
        keep: where memories are kept and reused; None for a temporary folder.
        progress: receives a line for each step.

    Raises:
        EmbeddingError: the model can't be loaded.
    """
    embedder = None if no_model else load_settings_embedder(settings)
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engram-bench-")))
        yield BenchHomes(folder=folder.absolute(), settings=settings, embedder=embedder, progress=progress)


def load_settings_embedder(settings: Settings) -> Embedder:
    """Load the embedding model that the settings specify. Raises EmbeddingError."""
    return load_embedder(
        settings.embedding_model,
        may_load_torch=True,
        document_prompt=settings.document_prompt,
        query_prompt=settings.query_prompt,
        threads=settings.embedding_threads,
    )


def read_transcripts(folder: Path) -> Callable[[Store, Settings], None]:
    """Return a function that fills a memory with the turns of every transcript in a Claude configuration folder."""

    def fill(store: Store, settings: Settings) -> None:
        places = replace(settings, claude_folder=folder, codex_folder=folder, gemini_folder=folder)
        ingest_all(store, settings=places, redact=redact)

    return fill


def extract_all(store: Store, settings: Settings, embedder: Embedder | None) -> None:
    """Make the memories of every session with the local extractor; sessions that were extracted are skipped."""
    for session in list_sessions(store):
        extract_session(store, session.session_id, extractor=LocalExtractor(), embedder=embedder, settings=settings)
    embed_all(store, embedder)


def _folder_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name).lstrip(".") or "memory"
