"""Ask the memory a question: the worker if it runs, else a search in this process."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from engram.errors import EmbeddingError
from engram.models.engine.transaction import Store
from engram.settings import Settings
from engram.text.words import MAX_QUERY_CHARS
from engram.vaults import settings_around
from engram.worker.client import ask_worker

if TYPE_CHECKING:  # the search is loaded by whoever asks: processes that only wake the worker stay small
    from engram.embedding.embedder import Embedder
    from engram.search.hits import PublicHit
    from engram.search.question import Query

logger = logging.getLogger(__name__)

#: Seconds that the worker has for an answer.
ANSWER_SECONDS = 10.0
#: Rows without a vector that are embedded before a search in this process, memories first.
MAX_FRESH_ROWS = 16


class Operation(StrEnum):
    """What is searched."""

    #: Memories, then passages that say more, within a budget of words.
    RECALL = "recall"
    #: Turns and notes, word for word.
    SEARCH = "search"


class AnsweredBy(StrEnum):
    """Who searched, and how."""

    WORKER = "worker"
    #: This process, with the embedding model.
    MODEL = "model"
    #: This process, by text alone.
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """One question. ``to_json`` is what the worker's ``recall`` and ``search`` read."""

    operation: Operation
    text: str
    limit: int
    #: Only this project and global memories; None for every project.
    project_id: int | None
    #: The branch that the asker works on; "" if it is not known.
    branch: str = ""
    #: Maximum number of hits, whatever they are; None where ``limit`` counts memories and words limit the rest.
    max_hits: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The request for engram.sock."""
        return {
            "op": self.operation.value,
            "query": self.text[:MAX_QUERY_CHARS],
            "limit": self.limit,
            "project_id": self.project_id,
            "all_projects": self.project_id is None,
            "branch": self.branch,
            "max_hits": self.max_hits,
        }

    def to_query(self) -> Query:
        """The question for a search in this process."""
        from engram.search.question import Query

        return Query(
            text=self.text[:MAX_QUERY_CHARS],
            project_id=self.project_id,
            limit=self.limit,
            branch=self.branch,
            max_hits=self.max_hits,
        )


@dataclass(frozen=True, slots=True)
class RecallResponse:
    """What the memory answered."""

    #: Best first.
    hits: tuple[PublicHit, ...]
    answered_by: AnsweredBy
    #: Why the model was not used; "" if it was, or was not wanted.
    note: str = ""
    #: What is said before the hits of a search where no text has the words; "" if one has.
    unsaid: str = ""


def ask_memory(
    store: Store, settings: Settings, request: RecallRequest, *, with_worker: bool = True, with_model: bool = True
) -> RecallResponse:
    """Ranked hits for a question.

    Args:
        with_worker: ask the worker first. Off when the settings of this call differ from the worker's.
        with_model: load the compiled model if no worker answers; off for processes that must stay small.
    """
    if with_worker:
        places, asked = settings.places, request.to_json()
        serving = settings_around(settings).places
        if serving != places:
            # The worker of the memory folder around a vault serves the vault too.
            places, asked = serving, asked | {"vault": places.root.name}
        answer = ask_worker(places, asked, timeout_seconds=ANSWER_SECONDS)
        hits = _parse_hits(answer)
        if answer is not None and hits is not None:
            return RecallResponse(hits, AnsweredBy.WORKER, unsaid=str(answer.get("unsaid", "")))
    embedder, note = load_model(settings) if with_model else (None, "")
    answered_by = AnsweredBy.TEXT if embedder is None else AnsweredBy.MODEL
    hits, unsaid = _search_here(store, settings, request, embedder)
    return RecallResponse(hits, answered_by, note, unsaid)


def load_model(settings: Settings) -> tuple[Embedder | None, str]:
    """The compiled model in this process, or None and why there is none. Never compiles, never loads torch."""
    # Not above: only a process that answers without a worker needs it.
    from engram.embedding.load import load_embedder

    try:
        embedder = load_embedder(
            settings.embedding_model,
            settings.places.models,
            compile_if_missing=False,
            document_prompt=settings.document_prompt,
            query_prompt=settings.query_prompt,
            threads=settings.embedding_threads,
        )
    except EmbeddingError as error:
        return None, f"text search only: no worker is running, and the embedding model can't be loaded ({error})"
    return embedder, ""


def _parse_hits(answer: Mapping[str, Any] | None) -> tuple[PublicHit, ...] | None:
    """The hits of the worker's answer; None if there is no worker, or it can't be understood."""
    if answer is None:
        return None
    from engram.search.hits import PublicHit

    try:
        return tuple(PublicHit.from_json(hit) for hit in answer["hits"])
    except (KeyError, TypeError, ValueError, AttributeError):
        # A worker of another version, or one that reports an error.
        logger.warning("action=ask_worker failed=no hits error=%s", str(answer.get("error", ""))[:200])
        return None


def _search_here(
    store: Store, settings: Settings, request: RecallRequest, embedder: Embedder | None
) -> tuple[tuple[PublicHit, ...], str]:
    """The hits, and what is said before them."""
    # Not above: the first answer of the MCP server, and the help of commands, need no search.
    from engram.notes.user_files import standing_of
    from engram.search.answer import answer_question, told_passages
    from engram.search.searcher import Searcher
    from engram.search.vectors.stored_vectors import embed_missing

    searcher = Searcher(store, settings, embedder=embedder)
    if embedder is not None:
        # No worker makes the vectors: what was just saved gets its own here.
        embed_missing(store, embedder, MAX_FRESH_ROWS)
        searcher.refresh()
    query = request.to_query()
    if request.operation is Operation.RECALL:
        return answer_question(store, searcher, query, standing_of=standing_of(store, query.project_id)).hits, ""
    found, unsaid = searcher.look_up(query)
    return tuple(told_passages(store, found, query.project_id)), unsaid
