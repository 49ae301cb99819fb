"""Ask the memory: the worker where it runs, else the compiled model in this process, else the text alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engram.cli.workspace import Workspace
from engram.embedding.embedder import Embedder
from engram.embedding.load import load_embedder
from engram.errors import EmbeddingError
from engram.models.sessions import ProjectRow
from engram.models.store import Store
from engram.search.hits import hit_to_json
from engram.search.question.query import MAX_QUERY_CHARS
from engram.search.service import Query, Searcher
from engram.search.vectors.backfill import embed_missing
from engram.worker.client import ask_worker

#: Seconds that the worker has for an answer.
_ANSWER_SECONDS = 10.0
#: Rows without a vector that are embedded before a search in this process, memories first.
_FRESH_ROWS = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """What the memory answered."""

    #: Hits in the form of ``--json``.
    hits: list[dict[str, Any]]
    #: worker, model (in this process) or text.
    by: str
    #: Why it was searched by text alone; "" otherwise.
    note: str = ""


def ask(workspace: Workspace, store: Store, operation: str, text: str, place: ProjectRow | None, limit: int) -> Answer:
    """Ranked hits for a question.

    Args:
        operation: ``recall`` for memories, ``search`` for turns and notes word for word.
        place: only this project (and what is global); None searches all.
        limit: hits at most.
    """
    query = text[:MAX_QUERY_CHARS]
    project_id = None if place is None else place.id
    if not set(workspace.flags) - {"home", "claude_folder"}:
        request = {"op": operation, "query": query, "limit": limit, "project_id": project_id}
        request["all_projects"] = project_id is None
        answer = ask_worker(workspace.places, request, timeout_seconds=_ANSWER_SECONDS)
        if answer is not None and isinstance(answer.get("hits"), list):
            return Answer(answer["hits"], "worker")
    embedder, note = load_model(workspace)
    if embedder is not None:
        # No worker runs: what was just saved by hand gets its vector here.
        embed_missing(store, embedder, _FRESH_ROWS)
    searcher = Searcher(store, workspace.settings, embedder=embedder)
    searcher.refresh()
    wanted = Query(text=query, project_id=project_id, limit=limit)
    hits = searcher.recall(wanted) if operation == "recall" else searcher.search(wanted)
    return Answer([hit_to_json(one) for one in hits], "text" if embedder is None else "model", note)


def load_model(workspace: Workspace) -> tuple[Embedder | None, str]:
    """The compiled model in this process, or None and why there is none; never compiles, never loads torch."""
    settings = workspace.settings
    try:
        return load_embedder(
            settings.embedding_model, settings.places.models, compile_if_missing=False,
            document_prompt=settings.document_prompt, query_prompt=settings.query_prompt,
            threads=settings.embedding_threads,
        ), ""  # fmt: skip
    except EmbeddingError as error:
        return None, f"searched by text alone, since no worker runs and the model is not at hand ({error})"
