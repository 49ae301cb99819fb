"""Let a language model distill again what the local extractor kept, until the time or a cap ends it."""

from __future__ import annotations

import logging
from typing import Protocol

from engram.consolidation.context import Context
from engram.errors import Conflict, ExtractionError
from engram.models.model_readings import second_chances

logger = logging.getLogger(__name__)


class DistilledPart(Protocol):
    """What became of a part of a session."""

    @property
    def session_id(self) -> str:
        """The session."""

    @property
    def turns(self) -> int:
        """Number of turns."""

    @property
    def new(self) -> int:
        """Number of new memories."""

    @property
    def replaced(self) -> int:
        """Number of memories that were replaced."""


class Distilling(Protocol):
    """Distills sessions again; its calls count against the caps of the extractor."""

    def distill_next(self) -> DistilledPart | None:
        """Distill the next part of a session; None if none waits. Raises ExtractionError, Conflict."""


def distill_again(context: Context) -> None:
    """Distill waiting sessions again. Every part is a run of its own, which can be undone."""
    if context.distilling is None:
        return
    if context.is_dry:
        waiting = second_chances(context.store).waiting
        if waiting:
            context.tell(f"distill {waiting} sessions again")
        return
    while True:
        context.check_time()
        try:
            part = context.distilling.distill_next()
        except (ExtractionError, Conflict) as error:
            logger.info("action=distill_again paused=%s", error)
            return
        if part is None:
            return
        context.tell(
            f"distill {part.turns} turns of session {part.session_id} again: "
            f"{part.new} new memories, {part.replaced} replaced"
        )
