"""Let a language model reword memories of the local extractor; their verbatim text stays."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from engram.consolidation.context import Context
from engram.enums import Actor, Importance, Source
from engram.errors import ExtractionError
from engram.models import episode_history
from engram.models.episodes import Episode

logger = logging.getLogger(__name__)

#: Action in a memory's history.
REWRITTEN = "rewritten"
#: Suffix of the extractor of a memory that the model has seen, so that it is asked once.
SEEN = "+llm"
#: Minimum quality of an unused memory that the model is asked about.
MIN_QUALITY = 0.4


class Wording(Protocol):
    """A better wording of a memory."""

    @property
    def summary(self) -> str:
        """The summary."""

    @property
    def kind(self) -> str:
        """The kind."""

    @property
    def entities(self) -> tuple[str, ...]:
        """The entities."""


class Rewording(Protocol):
    """Finds better wordings; its calls count against the caps of the extractor."""

    @property
    def model_name(self) -> str:
        """The name of the model."""

    def reword(self, memories: Sequence[Episode]) -> Mapping[str, Wording]:
        """Return better wordings by the memory's id. Raises ExtractionError if the model is unavailable."""


def reword_local(context: Context) -> None:
    """Reword the most used and best memories of the local extractor, a few of one project per run, with one call.

    Summary, kind and entities may change; content and evidence stay, and the history keeps the old wording. The model
    is asked about a memory once. If it is unavailable, the next run tries again.
    """
    if context.rewording is None:
        return
    chosen = _chosen(context, context.settings.llm_rewrite_limit)
    if not chosen:
        return
    context.check_time()
    model = context.rewording.model_name
    if context.is_dry:
        for episode in chosen:
            context.tell(f"ask {model} for a better wording of {episode.episode_id}")
        return
    try:
        wordings = context.rewording.reword(chosen)
    except ExtractionError as error:
        logger.info("action=reword failed=%s", error)
        return
    for episode in chosen:
        _reword(context, episode, wordings.get(episode.episode_id), model)


def _reword(context: Context, episode: Episode, wording: Wording | None, model: str) -> None:
    changes: dict[str, object] = {"extractor": f"{episode.extractor}{SEEN}"}
    reason = f"{model} found no better wording"
    if wording is not None:
        values = {"summary": wording.summary, "kind": wording.kind, "entities": wording.entities}
        changes |= {name: value for name, value in values.items() if value != getattr(episode, name)}
        reason = f"in the words of {model}"
    if context.change(episode, REWRITTEN, reason, **changes, actor=Actor.MODEL):
        context.tell(f"{'reword' if wording else 'leave the words of'} {episode.episode_id} ({reason})")


def _chosen(context: Context, limit: int) -> list[Episode]:
    """Return memories of one project, at most ``limit``: the one that most needs a good wording, and others."""
    candidates = sorted(
        filter(_is_local, context.current_memories()),
        key=lambda e: (-e.access_count, e.importance != Importance.HIGH, -e.quality),
    )
    chosen: list[Episode] = []
    for episode in candidates:
        if len(chosen) >= limit:
            break
        if chosen and chosen[0].project_id != episode.project_id:
            continue
        if not context.is_undone(REWRITTEN, episode) and not _is_decided(context, episode):
            chosen.append(episode)
    return chosen


def _is_local(episode: Episode) -> bool:
    is_own_work = (
        episode.source == Source.AUTO and episode.extractor.startswith("local") and SEEN not in episode.extractor
    )
    is_settled = episode.is_pinned or episode.is_lowered or episode.suspect or episode.graduated_at_ms is not None
    return is_own_work and not is_settled and (episode.access_count > 0 or episode.quality >= MIN_QUALITY)


def _is_decided(context: Context, episode: Episode) -> bool:
    """Return True if the wording is a person's, or that of several merged memories."""
    history = episode_history.history_of(context.store, episode.episode_id)
    return any(change.is_by_hand or change.action == "merge" for change in history)
