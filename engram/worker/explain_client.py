"""Ask what a prompt would be answered: the worker if it runs, else a dry run in this process."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from engram.models.projects import ProjectRow
from engram.models.store import Store
from engram.recollection.explain import Explanation, explain
from engram.settings import Settings
from engram.worker.client import ask_worker
from engram.worker.recall_client import ANSWER_SECONDS, AnsweredBy, load_model

logger = logging.getLogger(__name__)


def explain_prompt(
    store: Store,
    settings: Settings,
    prompt: str,
    project: ProjectRow | None,
    *,
    session_id: str = "",
    with_worker: bool = True,
) -> tuple[Explanation, AnsweredBy, str]:
    """Return what a prompt would be answered, who says so, and why the model was not used ("" if it was).

    Args:
        store: the open memory.
        settings: as the worker has them.
        prompt: as a person would type it.
        project: the project that it is asked in; None for none.
        session_id: a session that it is asked in; "" for a new one.
        with_worker: ask the worker first. Off when the settings of this call differ from the worker's.
    """
    if with_worker:
        request = {
            "op": "explain",
            "prompt": prompt,
            "project_id": None if project is None else project.id,
            "session_id": session_id,
        }
        explanation = _parse(ask_worker(settings.places, request, timeout_seconds=ANSWER_SECONDS))
        if explanation is not None:
            return explanation, AnsweredBy.WORKER, ""
    from engram.recollection.service import RecollectionService
    from engram.search.service import Searcher

    embedder, note = load_model(settings)
    searcher = Searcher(store, settings, embedder=embedder)
    searcher.refresh()
    service = RecollectionService(store, searcher, settings, embedder=embedder)
    explanation = explain(service, prompt, project, session_id=session_id)
    return explanation, AnsweredBy.TEXT if embedder is None else AnsweredBy.MODEL, note


def _parse(answer: Mapping[str, Any] | None) -> Explanation | None:
    """Return the explanation of the worker's answer; None if there is no worker, or it can't be understood."""
    if answer is None:
        return None
    try:
        return Explanation.from_json(answer)
    except (KeyError, TypeError, ValueError, AttributeError):
        # A worker of another version, or one that reports an error.
        logger.warning("action=explain_prompt failed=no explanation error=%s", str(answer.get("error", ""))[:200])
        return None
