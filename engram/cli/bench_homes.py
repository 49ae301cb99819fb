"""Temporary memories for a benchmark: made through the real path, and kept if a folder is given."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engram.bench.memories import embed_all
from engram.cli.workspace import Workspace
from engram.embedding.embedder import Embedder
from engram.embedding.load import load_embedder
from engram.extraction.local import LocalExtractor
from engram.extraction.service import extract_session
from engram.ingest.service import ingest_all
from engram.models.sessions import list_sessions
from engram.models.store import Store, open_store
from engram.redaction import redact
from engram.search.service import Searcher
from engram.settings import Settings


@dataclass(slots=True)
class Homes:
    """Makes memories, each in a folder of its own."""

    folder: Path
    settings: Settings
    embedder: Embedder | None

    @contextlib.contextmanager
    def memory(self, name: str, fill: Callable[[Store, Settings], None]) -> Iterator[tuple[Store, Searcher]]:
        """The memory of that name with its vectors loaded; filled if it is new."""
        settings = replace(
            self.settings, home=self.folder / _plain(name), hourly_memories=1_000_000, exclude=(), capture=True
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
def open_homes(workspace: Workspace, *, no_model: bool, keep: Path | None) -> Iterator[Homes]:
    """Memories in a temporary folder, or in ``keep``, where they are reused. Raises EmbeddingError."""
    settings = workspace.settings
    embedder = None
    if not no_model:
        embedder = load_embedder(
            settings.embedding_model,
            settings.places.models,
            compile_if_missing=True,
            document_prompt=settings.document_prompt,
            query_prompt=settings.query_prompt,
            threads=settings.embedding_threads,
        )
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engram-bench-")))
        yield Homes(folder.absolute(), settings, embedder)


def read_transcripts(folder: Path) -> Callable[[Store, Settings], None]:
    """Return a function that fills a memory with the turns of every transcript in a Claude configuration folder."""

    def fill(store: Store, settings: Settings) -> None:
        ingest_all(store, folder, settings=replace(settings, claude_folder=folder), redact=redact)

    return fill


def extract_all(store: Store, settings: Settings, embedder: Embedder | None) -> None:
    """Make the memories of every session with the local extractor; sessions that were extracted are skipped."""
    for session in list_sessions(store):
        extract_session(store, session.session_id, extractor=LocalExtractor(), embedder=embedder, settings=settings)
    embed_all(store, embedder)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name).lstrip(".") or "memory"
