"""Answer a question from the memory, through the worker if it is running, otherwise by searching in this process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from engram.errors import BadRequest, StoreError
from engram.models.engine.transaction import Store
from engram.reports.processes import holder_of
from engram.settings import Settings
from engram.text.words import MAX_QUERY_CHARS, has_words
from engram.vaults import settings_around
from engram.worker.worker_client import ask_worker

if TYPE_CHECKING:  # the search is loaded only when needed, so that processes that only wake the worker stay small
    from engram.embedding.embedder import Embedder
    from engram.search.hits import PublicHit
    from engram.search.question import Query

logger = logging.getLogger(__name__)

#: Timeout for the worker's answer, in seconds.
ANSWER_SECONDS = 10.0
#: Maximum number of rows without a vector that are embedded before a search in this process; memories come first.
MAX_FRESH_ROWS = 16


class Operation(StrEnum):
    #: Memories, followed by passages that add to them, within a word budget.
    RECALL = "recall"
    #: Turns and notes, verbatim.
    SEARCH = "search"


class AnsweredBy(StrEnum):
    """Which process searched, and how."""

    WORKER = "worker"
    #: This process, with the embedding model.
    MODEL = "model"
    #: This process, by text only.
    TEXT = "text"


def require_words(query: str) -> None:
    """Raise BadRequest for a query without letters or digits, which would match arbitrary texts."""
    if not has_words(query):
        raise BadRequest("the query contains no words: describe in a few words what to look for")


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """A question; ``to_json`` returns a request for the worker's ``recall`` or ``search`` operation."""

    operation: Operation
    text: str
    limit: int
    #: Search only this project and global memories; None for every project.
    project_id: int | None
    #: The branch on which the question was asked; "" if unknown.
    branch: str = ""
    #: Maximum number of hits of any kind; None if ``limit`` applies to memories and a word budget limits everything
    #: else.
    max_hits: int | None = None

    def to_json(self) -> dict[str, Any]:
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
        """Return the question for a search in this process."""
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
    """The memory's answer."""

    #: Best first.
    hits: tuple[PublicHit, ...]
    answered_by: AnsweredBy
    #: Why the worker did not answer, or the model was not used; "" if there is nothing to say.
    note: str = ""
    #: A sentence saying that no text contains the words of a search; "" if a text does.
    not_found: str = ""


def ask_memory(
    store: Store, settings: Settings, request: RecallRequest, *, with_worker: bool = True, with_model: bool = True
) -> RecallResponse:
    """Return ranked hits for a question.

    Args:
        with_worker: whether to query the worker first; False if the settings of this call differ from the worker's.
        with_model: whether to load the model if no worker answers; False for processes that must stay small.
    """
    if with_worker:
        answer = ask_worker(settings.places, request.to_json(), timeout_seconds=ANSWER_SECONDS)
        hits = _parse_hits(answer)
        if answer is not None and hits is not None:
            return RecallResponse(hits, AnsweredBy.WORKER, not_found=str(answer.get("unsaid", "")))
    embedder, note = _load_model(settings) if with_model else (None, "")
    answered_by = AnsweredBy.TEXT if embedder is None else AnsweredBy.MODEL
    hits, not_found = _search_here(store, settings, request, embedder)
    return RecallResponse(hits, answered_by, with_silence(settings, note) if with_worker else note, not_found)


def _load_model(settings: Settings) -> tuple[Embedder | None, str]:
    from engram.embedding.load_model import load_model  # not for processes that must stay small

    return load_model(settings)


def with_silence(settings: Settings, note: str) -> str:
    """Prefix a note with a remark if a worker is running. Call this after a request that it did not answer."""
    pid = holder_of(settings_around(settings).places.worker_lock)
    silence = f"the worker (pid {pid}) does not answer: `engram doctor` says what to do" if pid else ""
    return "; ".join(filter(None, (silence, note)))


def _parse_hits(answer: Mapping[str, Any] | None) -> tuple[PublicHit, ...] | None:
    """Return the hits of the worker's answer; None if there is no worker, or its answer can't be parsed."""
    if answer is None:
        return None
    from engram.search.hits import PublicHit

    try:
        return tuple(PublicHit.from_json(hit) for hit in answer["hits"])
    except (KeyError, TypeError, ValueError, AttributeError):
        # The worker is a different version, or it reported an error.
        logger.warning("action=ask_worker failed=no hits error=%s", str(answer.get("error", ""))[:200])
        return None


def _search_here(
    store: Store, settings: Settings, request: RecallRequest, embedder: Embedder | None
) -> tuple[tuple[PublicHit, ...], str]:
    """Return the hits, and a sentence that introduces them."""
    # Imported here because the MCP server's first answer and the commands' help do not need the search.
    from engram.notes.standing import standing_of
    from engram.search.answer import answer_question, public_passages
    from engram.search.searcher import Searcher
    from engram.search.vectors.loaded_vectors import embed_missing

    searcher = Searcher(store, settings, embedder=embedder)
    if embedder is not None:
        # Without a worker, compute the vectors of recently saved memories now, if memory.db is writable.
        with contextlib.suppress(StoreError):
            embed_missing(store, embedder, MAX_FRESH_ROWS)
        searcher.refresh()
    query = request.to_query()
    if request.operation is Operation.RECALL:
        return answer_question(store, searcher, query, standing_of=standing_of(store, query.project_id)).hits, ""
    found, unsaid = searcher.look_up(query)
    return tuple(public_passages(store, found, query.project_id)), unsaid
